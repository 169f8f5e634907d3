//! The strict check: fields that the schema does not know, and values of the wrong type.

use api::schema;

use crate::object::Object;
use crate::request::FieldValidation;
use crate::resource::Resource;
use crate::status::{Answer, Status};

/// Tidies a document (unknown fields and `null`s go) and says so or refuses, as asked. Values of the wrong type are
/// always refused, all of them at once.
pub fn check(
    resource: &Resource,
    version: &str,
    validation: FieldValidation,
    object: &mut Object,
    warnings: &mut Vec<String>,
) -> Answer<()> {
    let findings = schema::check(resource.group, version, resource.kind, object.document_mut());
    if !findings.type_errors.is_empty() {
        let texts: Vec<String> = findings.type_errors.iter().map(ToString::to_string).collect();
        return Err(undecodable(resource, version, &texts.join("; ")));
    }
    if findings.unknown.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = findings.unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => warnings.extend(texts),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", texts.join(", "));
            return Err(undecodable(resource, version, &why));
        }
    }
    Ok(())
}

/// The refusal of an object that its type cannot hold.
pub fn undecodable(resource: &Resource, version: &str, why: &str) -> Status {
    let kind = resource.kind;
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}
