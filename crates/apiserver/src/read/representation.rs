//! Stored bytes in the requested form: whole objects, their metadata alone, or rows of a table. Single objects, lists
//! and watches use the same functions.

use std::sync::Arc;

use api::{Clock, Revision};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::read::table::PrinterTable;
use crate::read::versions::VersionConverter;
use crate::request::IncludeObject;
use crate::request::negotiation::Representation;
use crate::resources::object::ApiObject;
use crate::server::Call;

const META_VERSION: &str = "meta.k8s.io/v1";

/// The representation of the objects of one response.
pub(crate) struct ResponseEncoder {
    form: Representation,
    converter: VersionConverter,
    include: IncludeObject,
    table: PrinterTable,
    clock: Arc<dyn Clock>,
    /// Whether the client already has the table's columns; only the first table of a watch has them.
    columns_sent: bool,
    api_version: String,
    kind: &'static str,
}

impl ResponseEncoder {
    /// As requested.
    pub fn new(call: &Call<'_>) -> ResponseEncoder {
        let Call { state, resource, info, representation: form, .. } = *call;
        ResponseEncoder {
            form,
            converter: VersionConverter::new(resource, &info.version),
            include: info.options.include_object,
            table: resource.strategy.table,
            clock: state.clock.clone(),
            columns_sent: false,
            api_version: resource.api_version(&info.version),
            kind: resource.kind,
        }
    }

    /// One object as a whole response.
    pub fn encode(&mut self, bytes: &Bytes) -> Bytes {
        if self.form == Representation::Object {
            return self.converter.whole(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        self.append_object(bytes, &mut out);
        out.into()
    }

    /// The same, appended to `out`; also the object of a watch event.
    pub fn append_object(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.form {
            Representation::Object | Representation::PartialMetadata => self.append_item(bytes, out),
            Representation::Table => {
                let object = ApiObject::parse(bytes).expect("the store holds only documents that this server wrote");
                let version = object.text(&["metadata", "resourceVersion"]).to_owned();
                self.append_table(&version, out, |shown, out| shown.append_row(&object, bytes, out));
            }
        }
    }

    /// One object of several: an item of a list or a row of a table.
    pub fn append_item(&self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.form {
            Representation::Object => self.converter.append(bytes, out),
            Representation::PartialMetadata => append_partial(metadata(bytes), out),
            Representation::Table => {
                let object = ApiObject::parse(bytes).expect("the store holds only documents that this server wrote");
                self.append_row(&object, bytes, out);
            }
        }
    }

    /// The bytes before the first item of a list.
    pub fn list_head(&self) -> String {
        match self.form {
            Representation::Object => format!("{{\"apiVersion\":\"{}\",\"items\":[", self.api_version),
            Representation::PartialMetadata => format!("{{\"apiVersion\":\"{META_VERSION}\",\"items\":["),
            Representation::Table => format!(
                "{{\"apiVersion\":\"{META_VERSION}\",\"columnDefinitions\":{},\"rows\":[",
                self.table.definitions()
            ),
        }
    }

    /// The bytes after the last item; `metadata` has the list's own fields.
    pub fn list_tail(&self, metadata: &str) -> String {
        let (kind, list) = match self.form {
            Representation::Object => (self.kind, "List"),
            Representation::PartialMetadata => ("PartialObjectMetadataList", ""),
            Representation::Table => ("Table", ""),
        };
        format!("],\"kind\":\"{kind}{list}\",\"metadata\":{{{metadata}}}}}")
    }

    /// The object of a bookmark, which has only metadata.
    pub fn append_bookmark(&mut self, revision: Revision, initial_events_end: bool, out: &mut Vec<u8>) {
        let annotations =
            if initial_events_end { "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}," } else { "" };
        let metadata = format!("{{{annotations}\"resourceVersion\":\"{revision}\"}}");
        match self.form {
            Representation::Object => {
                let (api_version, kind) = (&self.api_version, self.kind);
                let text = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",\"metadata\":{metadata}}}");
                out.extend_from_slice(text.as_bytes());
            }
            Representation::PartialMetadata => append_partial(&metadata, out),
            // The row has no cells, so that kubectl prints nothing. Clients read the annotation from the row's object.
            Representation::Table => self.append_table(&revision.to_string(), out, |_, out| {
                out.extend_from_slice(b"{\"cells\":[],\"object\":");
                append_partial(&metadata, out);
                out.push(b'}');
            }),
        }
    }

    /// A table with one row.
    fn append_table(&mut self, version: &str, out: &mut Vec<u8>, row: impl FnOnce(&ResponseEncoder, &mut Vec<u8>)) {
        let columns = if self.columns_sent { "[]".to_owned() } else { self.table.definitions() };
        self.columns_sent = true;
        let head = format!(
            "{{\"apiVersion\":\"{META_VERSION}\",\"columnDefinitions\":{columns},\"kind\":\"Table\",\
             \"metadata\":{{\"resourceVersion\":\"{version}\"}},\"rows\":["
        );
        out.extend_from_slice(head.as_bytes());
        row(self, out);
        out.extend_from_slice(b"]}");
    }

    fn append_row(&self, object: &ApiObject, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"cells\":");
        let cells = (self.table.cells)(object, self.clock.now());
        serde_json::to_writer(&mut *out, &cells).expect("cells are strings, numbers and booleans");
        out.extend_from_slice(b",\"object\":");
        match self.include {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata => append_partial(metadata(bytes), out),
            IncludeObject::Object => self.converter.append(bytes, out),
        }
        out.push(b'}');
    }
}

/// The metadata of a stored object, found without decoding the rest.
fn metadata(bytes: &[u8]) -> &str {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let head: Head<'_> = serde_json::from_slice(bytes).expect("the store holds only documents that this server wrote");
    head.metadata.get()
}

fn append_partial(metadata: &str, out: &mut Vec<u8>) {
    let text =
        format!("{{\"apiVersion\":\"{META_VERSION}\",\"kind\":\"PartialObjectMetadata\",\"metadata\":{metadata}}}");
    out.extend_from_slice(text.as_bytes());
}
