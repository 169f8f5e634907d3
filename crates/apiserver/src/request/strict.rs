//! The strict check: unknown fields, duplicate fields, and values of the wrong type.

use api::schema;

use crate::request::FieldValidation;
use crate::resources::object::ApiObject;
use crate::resources::resource::Resource;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;

/// The maximum number of reported fields. The message is read by people.
const MAX_REPORTED: usize = 100;

/// Removes unknown fields, and warns or refuses by `fieldValidation`. `duplicates` were found when the document
/// was parsed. Values of the wrong type are always refused, all of them at once.
pub(crate) fn check(
    call: &Call<'_>,
    object: &mut ApiObject,
    duplicates: &[String],
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let Call { resource, info, .. } = *call;
    let findings = schema::check(resource.group, &info.version, resource.kind, object.document_mut());
    if !findings.type_errors.is_empty() {
        let texts: Vec<String> = findings.type_errors.iter().take(MAX_REPORTED).map(ToString::to_string).collect();
        return Err(undecodable(resource, &info.version, &texts.join("; ")));
    }
    if findings.unknown.is_empty() && duplicates.is_empty() {
        return Ok(());
    }
    let unknown = findings.unknown.iter().map(|path| format!("unknown field \"{path}\""));
    let duplicate = duplicates.iter().map(|path| format!("duplicate field \"{path}\""));
    let mut texts = unknown.chain(duplicate).take(MAX_REPORTED);
    match info.options.field_validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            warnings.extend(texts);
            Ok(())
        }
        FieldValidation::Strict => {
            let first = texts.next().unwrap_or_default();
            let cause = texts.fold(format!("strict decoding error: {first}"), |cause, text| cause + ", " + &text);
            Err(undecodable(resource, &info.version, &cause))
        }
    }
}

/// The refusal of an object that cannot be decoded into its type.
pub fn undecodable(resource: &Resource, version: &str, cause: &str) -> Status {
    let kind = resource.kind;
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {cause}"))
}
