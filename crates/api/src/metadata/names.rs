//! Rules for names. Each returns the violated rules with the API's messages, none if the name is valid.

use workloadbuilder::format;

/// A rule for names: `dns_label`, `dns_subdomain`, …
pub type NameRule = fn(&str) -> Vec<String>;

const MAX_LABEL_LENGTH: usize = 63;
const MAX_SUBDOMAIN_LENGTH: usize = 253;

/// A DNS label: lower case letters, digits and `-`, at most 63 characters (RFC 1123).
pub fn dns_label(name: &str) -> Vec<String> {
    bytes_to_characters(format::label(name))
}

/// A DNS subdomain: labels separated by dots, at most 253 characters (RFC 1123). The rule of most kinds.
pub fn dns_subdomain(name: &str) -> Vec<String> {
    bytes_to_characters(format::subdomain(name))
}

/// A subdomain whose labels may start with and contain `_`, as names of services do.
pub fn dns_subdomain_with_underscores(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > MAX_SUBDOMAIN_LENGTH {
        problems.push(format!("must be no more than {MAX_SUBDOMAIN_LENGTH} characters"));
    }
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        let known = |char: char| is_plain(char) || matches!(char, '-' | '_');
        label.starts_with(is_plain) && label.ends_with(is_plain) && label.chars().all(known)
    };
    if !name.split('.').all(is_label) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    problems
}

/// A name that can be part of a path.
pub fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].into_iter().filter(|part| name.contains(part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// `name` or `prefix/name`: keys of labels and annotations, finalizers, resources.
pub fn qualified_name(name: &str) -> Vec<String> {
    format::label_key(name)
}

/// The value of a label: empty, or letters, digits, `-`, `_` and `.`, at most 63.
pub fn label_value(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > MAX_LABEL_LENGTH {
        problems.push(format!("must be no more than {MAX_LABEL_LENGTH} bytes"));
    }
    if !value.is_empty() && !is_label_value(value) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// The name of a port: an IANA service name of at most 15 characters.
pub fn port_name(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let bytes = name.as_bytes();
    if bytes.len() > 15 {
        problems.push("must be no more than 15 characters".to_owned());
    }
    if bytes.is_empty() || !bytes.iter().all(|b| is_lower_alphanumeric(*b) || *b == b'-') {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !bytes.iter().any(u8::is_ascii_lowercase) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

/// Validates a prefix that a random suffix follows: the rule for the whole name, except that it may end with a dash.
pub fn prefix(generate_name: &str, rule: NameRule) -> Vec<String> {
    match generate_name.strip_suffix('-') {
        Some(start) if !start.is_empty() => rule(&format!("{start}a")),
        _ => rule(generate_name),
    }
}

/// The API counts the length of these names in characters, and that of other strings in bytes.
fn bytes_to_characters(problems: Vec<String>) -> Vec<String> {
    let problems = problems.into_iter();
    problems
        .map(|problem| problem.strip_suffix("bytes").map(|start| format!("{start}characters")).unwrap_or(problem))
        .collect()
}

fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() => {
            bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        }
        _ => false,
    }
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::{NameRule, dns_label, dns_subdomain, label_value, path_segment, port_name, prefix, qualified_name};

    const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    #[test]
    fn valid_names_have_no_problem() {
        let long_label = "a".repeat(63);
        let good: [(NameRule, &[&str]); 6] = [
            (dns_label, &["a", "0", "a-b", &long_label]),
            (dns_subdomain, &["a", "a.b", "a-b.c0", &long_label]),
            (qualified_name, &["a", "A_b.c", "example.com/MyName", "batch.kubernetes.io/job-name"]),
            (label_value, &["", "a", "A_b.c-1", &long_label]),
            (port_name, &["http", "a1-b", "1a"]),
            (path_segment, &["a", "A_b c", "...", &long_label]),
        ];
        for (rule, names) in good {
            for name in names {
                assert_eq!(rule(name), Vec::<String>::new(), "{name}");
            }
        }
    }

    #[test]
    fn invalid_names_have_the_messages_of_the_api() {
        let long = "a".repeat(254);
        let long_label = &long[..64];
        let bad: [(NameRule, &str, &[&str]); 19] = [
            (dns_label, "", &[LABEL]),
            (dns_label, "A", &[LABEL]),
            (dns_label, "-a", &[LABEL]),
            (dns_label, "a.b", &["must not contain dots"]),
            (dns_label, long_label, &["must be no more than 63 characters"]),
            (dns_subdomain, "a..b", &[SUBDOMAIN]),
            (dns_subdomain, "a_b", &[SUBDOMAIN]),
            (dns_subdomain, "a.-b", &[SUBDOMAIN]),
            (dns_subdomain, &long, &["must be no more than 253 characters"]),
            (qualified_name, "", &["name part must be non-empty", KEY]),
            (qualified_name, "/a", &["prefix part must be non-empty"]),
            (qualified_name, "a b", &[KEY]),
            (qualified_name, long_label, &["name part must be no more than 63 bytes"]),
            (label_value, "-a", &[VALUE]),
            (label_value, long_label, &["must be no more than 63 bytes"]),
            (port_name, "12", &["must contain at least one letter (a-z)"]),
            (port_name, "a--b", &["must not contain consecutive hyphens"]),
            (path_segment, "..", &["may not be '..'"]),
            (path_segment, "a/%b", &["may not contain '/'", "may not contain '%'"]),
        ];
        for (rule, name, problems) in bad {
            assert_eq!(rule(name), problems, "{name}");
        }
        assert_eq!(qualified_name("A/b"), [format!("prefix part {SUBDOMAIN}")]);
    }

    #[test]
    fn prefix_may_end_with_a_dash() {
        assert!(prefix("job-", dns_subdomain).is_empty());
        assert_eq!(prefix("-", dns_subdomain), [SUBDOMAIN]);
        assert_eq!(prefix("Job-", dns_subdomain), [SUBDOMAIN]);
    }
}
