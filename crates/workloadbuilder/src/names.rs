//! Names of objects and templates: readable, unique, and valid for every valid owner name.
//!
//! They equal the names of the Kubernetes Job controller where those are valid. They are for people: code must not look
//! objects up by them.

/// The maximum length of an object's name.
const MAX_OBJECT_NAME_LENGTH: usize = 253;
/// The maximum length of a template's name, which is a DNS label.
const MAX_LABEL_LENGTH: usize = 63;

/// The name of the Workload of an owner: the owner's name, truncated if necessary, and a hash of its uid.
pub fn workload_name(owner_name: &str, owner_uid: &str) -> String {
    // Upstream hashes the type name too.
    let hash = hash(&["(types.UID)", owner_uid]);
    let prefix = truncate(owner_name, MAX_OBJECT_NAME_LENGTH - hash.len() - 1);
    format!("{prefix}-{hash}")
}

/// The name of the only group of a template: the names of its Workload and its template, each truncated if necessary,
/// and a hash of both.
pub fn pod_group_name(workload_name: &str, template_name: &str) -> String {
    group_name(workload_name, template_name, "")
}

/// The name of one of several groups of a template: as [`pod_group_name`], with `instance` in the hash.
// Upstream: all groups of one template have the same name, so a second child of a template can never create its group.
pub fn group_name(workload_name: &str, template_name: &str, instance: &str) -> String {
    let hash = match instance {
        "" => hash(&[workload_name, template_name]),
        // Names have no slash, so no two groups hash the same bytes.
        _ => hash(&[workload_name, "/", template_name, "/", instance]),
    };
    let available = MAX_OBJECT_NAME_LENGTH - hash.len() - 2;
    let half = available / 2;
    let (max_workload, max_template) = match (workload_name.len(), template_name.len()) {
        (workload, template) if workload + template <= available => (workload, template),
        (workload, _) if workload <= half => (workload, available - workload),
        (_, template) if template <= half => (available - template, template),
        _ => (available - half, half),
    };
    format!("{}-{}-{hash}", truncate(workload_name, max_workload), truncate(template_name, max_template))
}

/// The name of the template at `index` of a Workload whose owner is called `owner_name`: `<owner>-pgt-<index>`.
// Upstream: always this form. The API refuses it for an owner name with dots or more than 57 characters, so such a Job
// never starts. Here dots are replaced by dashes, and a hash of the whole name keeps the result unique.
pub fn template_name(owner_name: &str, index: usize) -> String {
    label(owner_name, &format!("pgt-{index}"))
}

/// The name of the composite template at `index`: `<owner>-cpgt-<index>`.
pub fn composite_template_name(owner_name: &str, index: usize) -> String {
    label(owner_name, &format!("cpgt-{index}"))
}

/// `<owner>-<suffix>` as a DNS label.
fn label(owner_name: &str, suffix: &str) -> String {
    let name = format!("{owner_name}-{suffix}");
    if name.len() <= MAX_LABEL_LENGTH && !owner_name.contains('.') {
        return name;
    }
    let suffix = format!("-{}-{suffix}", hash(&[owner_name]));
    let prefix = owner_name.replace('.', "-");
    format!("{}{suffix}", truncate(&prefix, MAX_LABEL_LENGTH - suffix.len()))
}

/// The first `max_length` characters of `name`, without a dot at the end: a dot before a dash is not valid in a name.
fn truncate(name: &str, max_length: usize) -> &str {
    let prefix = name.char_indices().nth(max_length).map_or(name, |(end, _)| &name[..end]);
    prefix.strip_suffix('.').unwrap_or(prefix)
}

/// FNV-1a (32 bits) of the concatenated parts. Its decimal digits are mapped to an alphabet that makes no words.
fn hash(parts: &[&str]) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let bytes = parts.iter().flat_map(|part| part.bytes());
    let sum = bytes.fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    sum.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::{composite_template_name, group_name, pod_group_name, template_name, workload_name};
    use crate::format;

    // Shows: S000-48
    // Shows: S000-49
    // Shows: U-TestComputeWorkloadName, U-TestComputePodGroupName
    #[test]
    fn names_equal_those_of_the_kubernetes_job_controller() {
        let workload = workload_name("my-job", "uid-123");
        assert_eq!(workload, "my-job-795ddf89fd");
        assert_eq!(template_name("my-job", 0), "my-job-pgt-0");
        assert_eq!(pod_group_name(&workload, "my-job-pgt-0"), "my-job-795ddf89fd-my-job-pgt-0-74cffdfb57");
        assert_eq!(pod_group_name("parent-workload", "workers"), "parent-workload-workers-5cfd5c5556");
    }

    // Shows: S000-61
    #[test]
    fn names_are_valid_for_every_valid_owner_name() {
        // With every length the truncation falls on every character of the pattern.
        for (pattern, length) in ["a", "a.", "ab.c-d."].iter().flat_map(|p| (1..=253).map(move |n| (p, n))) {
            let owner: String = pattern.chars().cycle().take(length).collect();
            if !format::subdomain(&owner).is_empty() {
                continue;
            }
            let workload = workload_name(&owner, "0b5e6c1a");
            let template = template_name(&owner, 0);
            let group = pod_group_name(&workload, &template);
            assert_eq!(format::subdomain(&workload), Vec::<String>::new(), "workload of {owner}");
            assert_eq!(format::label(&template), Vec::<String>::new(), "template of {owner}");
            let composite = composite_template_name(&owner, 7);
            assert_eq!(format::label(&composite), Vec::<String>::new(), "composite template of {owner}");
            assert_eq!(format::subdomain(&group), Vec::<String>::new(), "group of {owner}");
        }
    }

    #[test]
    fn truncated_names_of_two_owners_differ() {
        let (one, other) = (format!("{}-one", "a".repeat(90)), format!("{}-other", "a".repeat(90)));
        assert_ne!(template_name(&one, 0), template_name(&other, 0));
        assert_ne!(template_name("a.b", 0), template_name("a-b", 0));
        assert_ne!(workload_name(&"a".repeat(253), "1"), workload_name(&"a".repeat(253), "2"));
    }

    // Shows: S000-50
    #[test]
    fn names_of_groups_of_one_template_differ_by_hash() {
        let names = ["", "0", "1", "workers-0"].map(|instance| group_name("set-x1", "workers", instance));
        for (i, name) in names.iter().enumerate() {
            assert!(name.starts_with("set-x1-workers-"), "{name}");
            assert!(!names[..i].contains(name), "{name}");
        }
        assert_eq!(names[0], pod_group_name("set-x1", "workers"));
        assert_ne!(group_name("a", "b", "bc"), group_name("a", "bb", "c"));
    }

    #[test]
    fn long_workload_and_template_names_share_the_length() {
        let (long, other) = ("w".repeat(300), "t".repeat(300));
        for (case, workload, template) in [
            ("both long", long.as_str(), other.as_str()),
            ("short workload", "short", other.as_str()),
            ("short template", long.as_str(), "short"),
        ] {
            let name = pod_group_name(workload, template);
            let parts: Vec<&str> = name.split('-').collect();
            let [workload_part, template_part, hash] = parts[..] else { panic!("{case}: {name}") };
            assert_eq!(name.len(), 253, "{case}");
            let available = 253 - hash.len() - 2;
            let expected = match case {
                "both long" => (available - available / 2, available / 2),
                "short workload" => (5, available - 5),
                _ => (available - 5, 5),
            };
            assert_eq!((workload_part.len(), template_part.len()), expected, "{case}");
        }
    }
}
