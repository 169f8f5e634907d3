//! The media types of the body and of the response, from the request's headers.

use api::protobuf::{DecodeError, Envelope};
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::response::status::{ApiResult, Status};
use crate::server::{MAX_BODY_BYTES, body_too_large};

/// The media types of YAML.
const YAML: [&str; 2] = ["application/yaml", "application/x-yaml"];
/// The maximum number of values that the aliases (`*name`) in a YAML body may expand to. Bodies written by people have
/// a few hundred.
const MAX_YAML_ALIAS_VALUES: usize = 10_000;
/// The media type of the protobuf form of objects.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The form of the objects in a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Representation {
    /// The objects themselves.
    #[default]
    Object,
    /// Their metadata alone: `PartialObjectMetadata`.
    PartialMetadata,
    /// Rows of printed cells: `Table`.
    Table,
}

impl Representation {
    /// The form that the client prefers among those that are served.
    pub fn negotiate(headers: &HeaderMap) -> ApiResult<Representation> {
        // Nearly every request takes this path.
        if headers.get(header::ACCEPT).is_none_or(|only| only == "application/json") {
            return Ok(Representation::Object);
        }
        accepted_ranges(headers).iter().find_map(MediaRange::representation).ok_or_else(Status::not_acceptable)
    }
}

/// One acceptable media type of a response: `application/json;as=Table;v=v1;g=meta.k8s.io`.
pub(crate) struct MediaRange<'a> {
    media_type: &'a str,
    parameters: &'a str,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> MediaRange<'a> {
        let (media_type, parameters) = text.split_once(';').unwrap_or((text, ""));
        MediaRange { media_type: media_type.trim(), parameters }
    }

    /// The type, without its parameters.
    pub fn media_type(&self) -> &'a str {
        self.media_type
    }

    /// Whether the range contains JSON, with any parameters.
    pub fn is_json(&self) -> bool {
        matches!(self.media_type, "application/json" | "application/*" | "*/*")
    }

    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        let mut pairs = self.parameters.split(';').filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim().trim_matches('"'))
    }

    /// The client's preference for it, in thousandths.
    fn quality(&self) -> u16 {
        let quality = self.parameter("q").and_then(|text| text.parse::<f32>().ok());
        quality.map_or(1000, |quality| (quality.clamp(0.0, 1.0) * 1000.0) as u16)
    }

    fn representation(&self) -> Option<Representation> {
        let served =
            matches!(self.parameter("v"), Some("v1" | "v1beta1")) && self.parameter("g") == Some("meta.k8s.io");
        match self.parameter("as") {
            _ if !self.is_json() => None,
            None => Some(Representation::Object),
            Some("Table") if served => Some(Representation::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if served => {
                Some(Representation::PartialMetadata)
            }
            Some(_) => None,
        }
    }
}

/// The acceptable media types, best first. Without an `Accept` header anything is acceptable.
pub(crate) fn accepted_ranges(headers: &HeaderMap) -> Vec<MediaRange<'_>> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let texts = values.flat_map(|value| value.split(',')).map(str::trim).filter(|text| !text.is_empty());
    let mut ranges: Vec<MediaRange<'_>> = texts.map(MediaRange::parse).collect();
    if ranges.is_empty() {
        ranges.push(MediaRange::parse("*/*"));
    }
    ranges.retain(|range| range.quality() > 0);
    ranges.sort_by_key(|range| std::cmp::Reverse(range.quality()));
    ranges
}

/// The media type of the body, without parameters; empty when the header is missing.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Whether the body is YAML.
pub(crate) fn is_yaml(headers: &HeaderMap) -> bool {
    YAML.contains(&media_type(headers))
}

/// Refuses a body of a type that [`to_json`] cannot read, before it is read.
pub(crate) fn check_media_type(headers: &HeaderMap) -> ApiResult<()> {
    match media_type(headers) {
        "" | "application/json" | PROTOBUF => Ok(()),
        yaml if YAML.contains(&yaml) => Ok(()),
        other => Err(Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format ({other}) - accepted media types include: \
             application/json, application/yaml, {PROTOBUF}"
        ))),
    }
}

/// A body with an object, as JSON.
pub(crate) fn to_json(headers: &HeaderMap, wanted: &ExpectedKind<'_>, body: Bytes) -> ApiResult<Bytes> {
    match media_type(headers) {
        yaml if YAML.contains(&yaml) => yaml_to_json(&body),
        // An empty body has no format. The caller decides what it means.
        PROTOBUF if !body.is_empty() => protobuf_to_json(wanted, &body),
        _ => Ok(body),
    }
}

/// The object that a body must contain.
pub(crate) struct ExpectedKind<'a> {
    /// Its group; empty for the core group.
    pub group: &'a str,
    /// Its version in that group.
    pub version: &'a str,
    /// Its kind.
    pub kind: &'a str,
}

impl ExpectedKind<'_> {
    /// The options of a delete, which every version of every group has.
    pub const DELETE_OPTIONS: ExpectedKind<'static> = ExpectedKind { group: "", version: "v1", kind: "DeleteOptions" };

    /// Refuses a body of another kind.
    pub fn check(&self, given_version: &str, given_kind: &str) -> ApiResult<()> {
        let ExpectedKind { group, version, kind } = *self;
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let in_every_version = kind == ExpectedKind::DELETE_OPTIONS.kind;
        if !in_every_version && !given_version.is_empty() && given_version != api_version {
            return Err(Status::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
            )));
        }
        if !given_kind.is_empty() && given_kind != kind {
            let text = format!("{given_kind} in version \"{version}\" cannot be handled as a {kind}");
            return Err(Status::bad_request(text));
        }
        Ok(())
    }
}

/// A protobuf body as JSON, with the same limits.
fn protobuf_to_json(wanted: &ExpectedKind<'_>, body: &[u8]) -> ApiResult<Bytes> {
    let ExpectedKind { group, version, kind } = *wanted;
    let refuse = |cause: DecodeError| match cause {
        DecodeError::TooLarge => body_too_large(),
        cause => Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {cause}")),
    };
    let envelope = Envelope::read(body).map_err(refuse)?;
    wanted.check(envelope.api_version, envelope.kind)?;
    let text = envelope.document(group, version, kind, MAX_BODY_BYTES).map_err(refuse)?.to_string();
    // The size is known only after serialization, because of escapes.
    if text.len() > MAX_BODY_BYTES { Err(body_too_large()) } else { Ok(text.into()) }
}

/// Converts a YAML document to JSON with the same limits: expanded aliases count as if they were written out. The
/// parser limits the depth.
// Upstream: treats duplicate keys of YAML by `fieldValidation`, like those of JSON. Here they are always refused.
fn yaml_to_json(body: &[u8]) -> ApiResult<Bytes> {
    let malformed = |cause: String| Status::bad_request(format!("error converting YAML to JSON: {cause}"));
    let text = std::str::from_utf8(body).map_err(|error| malformed(error.to_string()))?;
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_YAML_ALIAS_VALUES },
        budget: serde_saphyr::budget! { max_total_scalar_bytes: MAX_BODY_BYTES },
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| malformed(error.without_snippet().to_string()))?;
    let json = value.to_string();
    // The size is known only after serialization, because of escapes.
    if json.len() > MAX_BODY_BYTES { Err(body_too_large()) } else { Ok(json.into()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_preferred_served_form_is_chosen() {
        for (accept, want) in [
            ("", Some(Representation::Object)),
            ("*/*", Some(Representation::Object)),
            ("application/json", Some(Representation::Object)),
            ("application/json;stream=watch", Some(Representation::Object)),
            ("text/plain, application/*;q=0.5", Some(Representation::Object)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Representation::Object)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/json;q=0", None),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(Representation::Table)),
            ("application/json;as=Table;g=meta.k8s.io;v=v1beta1, application/json", Some(Representation::Table)),
            ("application/json;q=0.9,application/json;as=Table;v=v1;g=meta.k8s.io", Some(Representation::Table)),
            ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", Some(Representation::Object)),
            ("application/json;as=Table;v=v2;g=meta.k8s.io", None),
            ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Some(Representation::PartialMetadata)),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
                Some(Representation::PartialMetadata),
            ),
        ] {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(Representation::negotiate(&headers).ok(), want, "{accept}");
        }
    }

    #[test]
    fn yaml_becomes_json() {
        let json = yaml_to_json(b"a: 1\nb: [x, true, null, '1']\nc:\n  d: 1.5\n").unwrap();
        assert_eq!(json, r#"{"a":1,"b":["x",true,null,"1"],"c":{"d":1.5}}"#.as_bytes());
    }

    #[test]
    fn yaml_with_aliases_becomes_json() {
        let json = yaml_to_json(b"a: &a {x: [1, 2]}\nb: [*a, *a]\n").unwrap();
        assert_eq!(json, r#"{"a":{"x":[1,2]},"b":[{"x":[1,2]},{"x":[1,2]}]}"#.as_bytes());
        let list = vec!["x"; 100].join(",");
        let many = format!("a: &a [{list}]\nb: [{}]\n", vec!["*a"; 90].join(","));
        assert!(yaml_to_json(many.as_bytes()).is_ok(), "9,000 values by alias");
    }

    #[test]
    fn yaml_that_is_broken_or_a_bomb_is_refused() {
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for name in 'b'..='z' {
            let last = char::from(name as u8 - 1);
            bomb += &format!("{name}: &{name} [{}]\n", vec![format!("*{last}"); 9].join(","));
        }
        let deep = "[".repeat(100_000);
        // Two kilobytes expand to 90,000 values, and one mebibyte to sixty.
        let (list, text) = (vec!["x"; 1000].join(","), "x".repeat(1 << 20));
        let values = format!("a: &a [{list}]\nb: [{}]\n", vec!["*a"; 90].join(","));
        let texts = format!("a: &a {text}\nb: [{}]\n", vec!["*a"; 60].join(","));
        let escapes = format!("a: \"{}\"\n", "\\x01".repeat(600_000));
        for (case, text) in [
            ("half", "a: ["),
            ("twice", "a: 1\na: 2\n"),
            ("two documents", "a: 1\n---\nb: 2\n"),
            ("deep", deep.as_str()),
            ("bomb", bomb.as_str()),
            ("many values by alias", values.as_str()),
            ("long texts by alias", texts.as_str()),
            ("escapes that grow", escapes.as_str()),
        ] {
            assert!(yaml_to_json(text.as_bytes()).is_err(), "{case}");
        }
    }
}
