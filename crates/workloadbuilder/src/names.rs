//! Names of the objects and templates a controller makes: readable, unique, and legal for every legal owner name.
//!
//! The names are those of the Kubernetes Job controller wherever those are legal. Nothing may look objects up by these
//! names: they are for people.

/// The longest name of an object.
const MAX_OBJECT_NAME_LENGTH: usize = 253;
/// The longest name of a template, which has to be a DNS label.
const MAX_LABEL_LENGTH: usize = 63;

/// The name of the Workload of an owner: the owner's name, cut if necessary, and a hash of its uid.
pub fn workload_name(owner_name: &str, owner_uid: &str) -> String {
    // The type name is part of the text that upstream hashes.
    let hash = hash(&["(types.UID)", owner_uid]);
    let prefix = truncate(owner_name, MAX_OBJECT_NAME_LENGTH - hash.len() - 1);
    format!("{prefix}-{hash}")
}

/// The name of the only group of a template: the names of its Workload and its template, each cut if necessary, and a
/// hash of both.
pub fn pod_group_name(workload_name: &str, template_name: &str) -> String {
    group_name(workload_name, template_name, "")
}

/// The name of one of several groups of a template: the same, with `instance` in the hash.
// Upstream: groups of one template all bear one name, so that a second child of a template finds its name taken for ever.
pub fn group_name(workload_name: &str, template_name: &str, instance: &str) -> String {
    let hash = match instance {
        "" => hash(&[workload_name, template_name]),
        // No name has a slash, so that no two groups hash the same text.
        _ => hash(&[workload_name, "/", template_name, "/", instance]),
    };
    let room = MAX_OBJECT_NAME_LENGTH - hash.len() - 2;
    let half = room / 2;
    let (workload_room, template_room) = match (workload_name.len(), template_name.len()) {
        (workload, template) if workload + template <= room => (workload, template),
        (workload, _) if workload <= half => (workload, room - workload),
        (_, template) if template <= half => (room - template, template),
        _ => (room - half, half),
    };
    format!("{}-{}-{hash}", truncate(workload_name, workload_room), truncate(template_name, template_room))
}

/// The name of the template at `index` of a Workload whose owner bears `owner_name`: `<owner>-pgt-<index>`.
// Upstream: that form always, which is refused by the API for an owner name that has dots or more than 57 characters,
// so that such a Job never starts. There the dots become dashes, and a hash of the whole name stands for what is lost.
pub fn template_name(owner_name: &str, index: usize) -> String {
    label(owner_name, &format!("pgt-{index}"))
}

/// The name of the composite template at `index`, by the same rule: `<owner>-cpgt-<index>`.
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

/// The first `room` characters of `name`, or one fewer where the last would be a dot: a dot and the dash that follows
/// make no legal name.
fn truncate(name: &str, max_length: usize) -> &str {
    let kept = name.char_indices().nth(max_length).map_or(name, |(end, _)| &name[..end]);
    kept.strip_suffix('.').unwrap_or(kept)
}

/// FNV-1a (32 bits) of the parts in a row, its decimal digits written in letters and digits that make no words.
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
    fn names_are_those_of_the_kubernetes_job_controller() {
        let workload = workload_name("my-job", "uid-123");
        assert_eq!(workload, "my-job-795ddf89fd");
        assert_eq!(template_name("my-job", 0), "my-job-pgt-0");
        assert_eq!(pod_group_name(&workload, "my-job-pgt-0"), "my-job-795ddf89fd-my-job-pgt-0-74cffdfb57");
        assert_eq!(pod_group_name("parent-workload", "workers"), "parent-workload-workers-5cfd5c5556");
    }

    // Shows: S000-61
    #[test]
    fn every_legal_owner_name_gives_legal_names() {
        // Every length, so that the cut falls on every character of the pattern.
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
    fn shortened_names_still_tell_owners_apart() {
        let (one, other) = (format!("{}-one", "a".repeat(90)), format!("{}-other", "a".repeat(90)));
        assert_ne!(template_name(&one, 0), template_name(&other, 0));
        assert_ne!(template_name("a.b", 0), template_name("a-b", 0));
        assert_ne!(workload_name(&"a".repeat(253), "1"), workload_name(&"a".repeat(253), "2"));
    }

    // Shows: S000-50
    #[test]
    fn the_hash_keeps_groups_of_one_template_apart() {
        let names = ["", "0", "1", "workers-0"].map(|instance| group_name("set-x1", "workers", instance));
        for (i, name) in names.iter().enumerate() {
            assert!(name.starts_with("set-x1-workers-"), "{name}");
            assert!(!names[..i].contains(name), "{name}");
        }
        assert_eq!(names[0], pod_group_name("set-x1", "workers"));
        assert_ne!(group_name("a", "b", "bc"), group_name("a", "bb", "c"));
    }

    #[test]
    fn a_long_workload_and_a_long_template_share_the_room() {
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
            let room = 253 - hash.len() - 2;
            let expected = match case {
                "both long" => (room - room / 2, room / 2),
                "short workload" => (5, room - 5),
                _ => (room - 5, 5),
            };
            assert_eq!((workload_part.len(), template_part.len()), expected, "{case}");
        }
    }
}
