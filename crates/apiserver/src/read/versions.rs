//! Stored bytes in the requested version. Most versions of a resource differ only in `apiVersion`, which is the first
//! field of the canonical form, so nothing is decoded. Other versions are converted.

use api::conversion::{Conversion, ConversionContext};
use api::kinds;
use api::schema;
use bytes::Bytes;

use crate::resources::object::ApiObject;
use crate::resources::resource::Resource;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;

/// Converts stored bytes to the requested version.
#[derive(Clone, Debug)]
pub struct VersionConverter(ConversionMethod);

#[derive(Clone, Debug)]
enum ConversionMethod {
    /// The bytes are already in the requested version.
    Same,
    /// Only the `apiVersion` at the start differs.
    Head { stored: Vec<u8>, requested: Vec<u8> },
    /// The versions differ in structure.
    Converted { api_version: String, conversion: &'static Conversion },
}

impl VersionConverter {
    /// From the resource's storage version to `version`.
    pub fn new(resource: &Resource, version: &str) -> VersionConverter {
        let head = |api_version: String| format!("{{\"apiVersion\":\"{api_version}\"").into_bytes();
        let requested = resource.api_version(version);
        VersionConverter(match resource.conversion(version) {
            Some(conversion) => ConversionMethod::Converted { api_version: requested, conversion },
            None if resource.is_stored_as(version) => ConversionMethod::Same,
            None => ConversionMethod::Head { stored: head(resource.storage_api_version()), requested: head(requested) },
        })
    }

    /// Appends the object to `out`.
    pub fn append(&self, bytes: &[u8], out: &mut Vec<u8>) {
        match &self.0 {
            ConversionMethod::Same => out.extend_from_slice(bytes),
            ConversionMethod::Head { stored, requested } => {
                let rest = bytes.strip_prefix(stored.as_slice());
                out.extend_from_slice(requested);
                out.extend_from_slice(rest.expect("stored objects begin with the storage version"));
            }
            ConversionMethod::Converted { api_version, conversion } => {
                let mut object =
                    ApiObject::parse(bytes).expect("the store holds only documents that this server wrote");
                convert(&mut object, api_version, conversion);
                serde_json::to_writer(out, object.document()).expect("a JSON value is always JSON");
            }
        }
    }

    /// One whole object; shared with the store when nothing changes.
    pub fn whole(&self, bytes: &Bytes) -> Bytes {
        if matches!(self.0, ConversionMethod::Same) {
            return bytes.clone();
        }
        let mut out = Vec::with_capacity(bytes.len());
        self.append(bytes, &mut out);
        out.into()
    }
}

fn convert(object: &mut ApiObject, api_version: &str, conversion: &Conversion) {
    (conversion.from_storage)(object.document_mut());
    // Older versions omit fields that the storage version writes as `null`.
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object.text(&["kind"]).to_owned();
    schema::check(group, version, &kind, object.document_mut());
    object.top_mut().insert("apiVersion".to_owned(), api_version.into());
}

/// A stored object in the version of the path.
pub(crate) fn to_request_version(call: &Call<'_>, stored: &ApiObject) -> ApiObject {
    let mut object = stored.clone();
    let api_version = call.resource.api_version(&call.info.version);
    match call.resource.conversion(&call.info.version) {
        Some(conversion) => convert(&mut object, &api_version, conversion),
        None => drop(object.top_mut().insert("apiVersion".to_owned(), api_version.into())),
    }
    object
}

/// Converts an object from the version of the path to the storage version. `old` is the stored object, if it exists. A
/// write in an outdated version gets a warning.
pub(crate) fn to_storage_version(
    call: &Call<'_>,
    object: &mut ApiObject,
    old: Option<&ApiObject>,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let Call { state, resource, info, .. } = *call;
    let storage_version = resource.storage_api_version();
    if let Some(conversion) = resource.conversion(&info.version) {
        if conversion.is_deprecated {
            let (kind, older) = (resource.kind, resource.api_version(&info.version));
            warnings.push(format!("{older} {kind} is an older form and is converted; write {storage_version} {kind}"));
        }
        let workload = |name: &str| {
            let workloads = state.resource_of(kinds::WORKLOAD)?;
            let stored = state.store.get(&workloads.key(call.namespace(), name))?;
            Some(ApiObject::from_stored(&stored).document().clone())
        };
        let context =
            ConversionContext { namespace: call.namespace(), old: old.map(ApiObject::document), workload: &workload };
        let converted = (conversion.to_storage)(object.document_mut(), &context);
        converted.map_err(|errors| Status::invalid(resource, object.name(), &errors))?;
    }
    object.top_mut().insert("apiVersion".to_owned(), storage_version.into());
    object.top_mut().insert("kind".to_owned(), resource.kind.into());
    Ok(())
}
