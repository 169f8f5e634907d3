//! Formats of names and keys. Each function returns the violated rules with the API's messages, none if the text is
//! valid.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const KEY_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// A DNS label (RFC 1123): at most 63 lower-case letters, digits and dashes.
pub fn label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !is_label(text) && text.split('.').all(is_label) {
        errors.push("must not contain dots".to_owned());
    } else if !is_label(text) {
        errors.push(does_not_match(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and must start and end with an alphanumeric character",
            LABEL,
            &["my-name", "123-abc"],
        ));
    }
    errors
}

/// A DNS subdomain (RFC 1123): labels joined by dots, at most 253 characters in all.
pub fn subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253));
    }
    if !text.split('.').all(is_label) {
        errors.push(does_not_match(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    errors
}

/// A label key: an optional subdomain and a slash, then a name of at most 63 characters.
pub fn label_key(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((_, name)) if name.contains('/') => {
            let rule = key_name_rule();
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut errors = Vec::new();
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => errors.extend(subdomain(prefix).iter().map(|what| format!("prefix part {what}"))),
        None => {}
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63)));
    }
    if !is_key_name(name) {
        errors.push(format!("name part {}", key_name_rule()));
    }
    errors
}

/// One element of a URL path.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let illegal = ['/', '%'].into_iter().filter(|illegal| text.contains(*illegal));
    illegal.map(|illegal| format!("may not contain '{illegal}'")).collect()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

fn is_key_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn key_name_rule() -> String {
    does_not_match(
        "must consist of alphanumeric characters, '-', '_' or '.', \
         and must start and end with an alphanumeric character",
        KEY_NAME,
        &["MyName", "my.name", "123-abc"],
    )
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn does_not_match(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::{label, label_key, path_segment, subdomain};

    type FormatCheck = fn(&str) -> Vec<String>;

    #[test]
    fn valid_names_and_keys_have_no_errors() {
        let long = "a".repeat(63);
        let cases: [(FormatCheck, &str); 10] = [
            (label, "a"),
            (label, "my-name"),
            (label, &long),
            (subdomain, "a.b-c.1"),
            (label_key, "rack"),
            (label_key, "topology.kubernetes.io/zone"),
            (label_key, "example.com/My_Name.v1"),
            (path_segment, "Job"),
            (path_segment, "..."),
            (path_segment, ""),
        ];
        for (format, text) in cases {
            assert_eq!(format(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn invalid_names_and_keys_have_the_messages_of_the_api() {
        let label_rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                          and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                          '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let subdomain_rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                              must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        let name_rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let (long_label, long_name) = ("a".repeat(64), "a".repeat(254));
        let cases: [(FormatCheck, &str, Vec<String>); 11] = [
            (label, "", vec![label_rule.to_owned()]),
            (label, "a.b", vec!["must not contain dots".to_owned()]),
            (label, "-a", vec![label_rule.to_owned()]),
            (label, &long_label, vec!["must be no more than 63 bytes".to_owned()]),
            (subdomain, "a..b", vec![subdomain_rule.to_owned()]),
            (subdomain, &long_name, vec!["must be no more than 253 bytes".to_owned()]),
            (label_key, "/a", vec!["prefix part must be non-empty".to_owned()]),
            (label_key, "a.b/", vec!["name part must be non-empty".to_owned(), format!("name part {name_rule}")]),
            (label_key, "A/b", vec![format!("prefix part {subdomain_rule}")]),
            (
                label_key,
                "a/b/c",
                vec![format!(
                    "a valid label key {name_rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                )],
            ),
            (path_segment, "a/b%", vec!["may not contain '/'".to_owned(), "may not contain '%'".to_owned()]),
        ];
        for (format, text, errors) in cases {
            assert_eq!(format(text), errors, "{text}");
        }
    }
}
