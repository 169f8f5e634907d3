//! What the caller must do about an error of the API server: retry, or report it to the user.

use kube::Error;

/// Whether a retry may succeed: the object has changed (409 Conflict), or the server is busy, restarting or
/// unreachable. Everything else is reported to the user.
pub fn is_retriable(error: &Error) -> bool {
    match error {
        Error::Api(status) => is_conflict(error) || matches!(status.code, 429 | 500 | 502 | 503 | 504),
        Error::HyperError(_) | Error::Service(_) | Error::ReadEvents(_) => true,
        _ => false,
    }
}

/// Whether the write may have been applied: the response was lost, or it is not one that a server sends only when it
/// has applied nothing.
pub fn is_uncertain(error: &Error) -> bool {
    match error {
        Error::Api(status) => !matches!(status.code, 400 | 401 | 403 | 404 | 405 | 413 | 415 | 422 | 429),
        Error::HyperError(_) | Error::Service(_) | Error::ReadEvents(_) => true,
        _ => false,
    }
}

/// Whether the object has changed since it was read.
pub fn is_conflict(error: &Error) -> bool {
    // Both have code 409. Only the reason distinguishes a conflict from an existing name.
    matches!(error, Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists")
}

/// Whether the object does not exist.
pub fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

/// Whether the name exists already.
pub fn is_already_exists(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

/// Whether the requested revision or continue token is compacted (410): list again.
pub fn is_expired(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 410)
}

/// Whether nothing can be created because the namespace is being deleted. It never accepts objects again.
pub fn is_namespace_terminating(error: &Error) -> bool {
    let Error::Api(status) = error else { return false };
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == "NamespaceTerminating")
}

/// The message of the server without the rest of its `Status`, or the reason why there is no response; for logs and
/// messages.
pub fn message(error: &Error) -> String {
    if let Error::Api(status) = error
        && !status.message.is_empty()
    {
        return status.message.clone();
    }
    // The innermost error has the cause; the outer ones only report that something failed.
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn codes_and_reasons_decide_what_to_do() {
        //                                   conflict, exists, not found, retriable
        for (code, reason, want) in [
            (409, "Conflict", (true, false, false, true)),
            (409, "AlreadyExists", (false, true, false, false)),
            (404, "NotFound", (false, false, true, false)),
            (422, "Invalid", (false, false, false, false)),
            (403, "Forbidden", (false, false, false, false)),
            (429, "TooManyRequests", (false, false, false, true)),
            (503, "ServiceUnavailable", (false, false, false, true)),
            (504, "Timeout", (false, false, false, true)),
        ] {
            let error = Error::Api(Status::failure("", reason).with_code(code).boxed());
            let got = (is_conflict(&error), is_already_exists(&error), is_not_found(&error), is_retriable(&error));
            assert_eq!(got, want, "{code} {reason}");
        }
        assert!(is_retriable(&Error::Service("connection refused".into())));
    }

    #[test]
    fn only_a_clear_refusal_means_that_nothing_was_written() {
        for (code, want) in
            [(403, false), (404, false), (422, false), (429, false), (409, true), (500, true), (504, true)]
        {
            let error = Error::Api(Status::failure("", "").with_code(code).boxed());
            assert_eq!(is_uncertain(&error), want, "{code}");
        }
        assert!(is_uncertain(&Error::Service("cut".into())));
    }
}
