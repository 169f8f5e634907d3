//! Security contexts of pods and containers.

use k8s_openapi::api::core::v1::{AppArmorProfile, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext};

use super::out_of_range_message;
use super::placement::repeated;
use crate::field::{Error, ErrorList, Path};
use crate::metadata::to_json;

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const MAX_ID: i64 = i32::MAX as i64;
const MAX_SYSCTL_BYTES: usize = 253;
const SYSCTL_RULE: &str = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Validates the security context of a pod with this spec.
pub fn validate_pod(context: &PodSecurityContext, spec: &PodSpec, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (name, id) in
        [("fsGroup", context.fs_group), ("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)]
    {
        errors.extend(id_problem(id, &path.child(name)));
    }
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        errors.extend(id_problem(Some(*group), &path.child("supplementalGroups").index(index)));
    }
    let settings = || context.sysctls.iter().flatten().map(|setting| setting.name.as_str());
    for (index, (name, repeats)) in settings().zip(repeated(settings())).enumerate() {
        let path = path.child("sysctls").index(index).child("name");
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !is_sysctl_name(name) {
            errors.push(Error::invalid(&path, name, SYSCTL_RULE));
        } else if repeats {
            errors.push(Error::duplicate(&path, name));
        } else if let Some(shared) = host_namespace_field(name, spec) {
            errors.push(Error::invalid(&path, name, format!("may not be specified when '{shared}' is true")));
        }
    }
    let change = &context.fs_group_change_policy;
    errors.extend(supported_value_problem(change, &["Always", "OnRootMismatch"], &path.child("fsGroupChangePolicy")));
    errors.extend(profile_problems(&context.seccomp_profile, &context.app_armor_profile, ErrorList::new(), path));
    let merge = &context.supplemental_groups_policy;
    errors.extend(supported_value_problem(merge, &["Merge", "Strict"], &path.child("supplementalGroupsPolicy")));
    let labels = &context.se_linux_change_policy;
    errors.extend(supported_value_problem(labels, &["MountOption", "Recursive"], &path.child("seLinuxChangePolicy")));
    errors
}

/// The field with which the pod shares the sysctl's namespace with its node. Then the sysctl cannot be set.
fn host_namespace_field(setting: &str, spec: &PodSpec) -> Option<&'static str> {
    let name = setting.replace('/', ".");
    let begins = |heads: &[&str]| heads.iter().any(|head| name.starts_with(head));
    let between_processes = name == "kernel.sem" || begins(&["kernel.shm", "kernel.msg", "fs.mqueue."]);
    if between_processes && spec.host_ipc == Some(true) {
        return Some("hostIPC");
    }
    (begins(&["net."]) && spec.host_network == Some(true)).then_some("hostNetwork")
}

/// Validates the security context of a container.
pub fn validate_container(context: &SecurityContext, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (name, id) in [("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)] {
        errors.extend(id_problem(id, &path.child(name)));
    }
    errors.extend(supported_value_problem(&context.proc_mount, &["Default", "Unmasked"], &path.child("procMount")));
    let contradiction = (context.allow_privilege_escalation == Some(false) && context.privileged == Some(true))
        .then_some("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        .map(|detail| Error::invalid(path, to_json(context), detail));
    let contradiction = contradiction.into_iter().collect();
    errors.extend(profile_problems(&context.seccomp_profile, &context.app_armor_profile, contradiction, path));
    errors
}

/// Whether it can be the name of a sysctl: `kernel.shm_rmid_forced`.
fn is_sysctl_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let known = |char: char| is_plain(char) || matches!(char, '-' | '_');
    let is_component = |part: &str| part.starts_with(is_plain) && part.ends_with(is_plain) && part.chars().all(known);
    name.len() <= MAX_SYSCTL_BYTES && name.split(['.', '/']).all(is_component)
}

fn id_problem(id: Option<i64>, path: &Path) -> Option<Error> {
    let id = id.filter(|id| !(0..=MAX_ID).contains(id))?;
    Some(Error::invalid(path, id, out_of_range_message(0, MAX_ID)))
}

fn supported_value_problem(value: &Option<String>, supported: &[&str], path: &Path) -> Option<Error> {
    let value = value.as_deref().filter(|value| !supported.contains(value))?;
    Some(Error::not_supported(path, value, supported))
}

/// The problems of both profiles, with those in between.
fn profile_problems(
    seccomp: &Option<SeccompProfile>,
    app_armor: &Option<AppArmorProfile>,
    between: ErrorList,
    path: &Path,
) -> ErrorList {
    let seccomp = seccomp.iter().flat_map(|profile| seccomp_problems(profile, &path.child("seccompProfile")));
    let app_armor = app_armor.iter().flat_map(|profile| app_armor_problems(profile, &path.child("appArmorProfile")));
    seccomp.chain(between).chain(app_armor).collect()
}

fn type_problem(kind: &str, field: &str, path: &Path) -> Option<Error> {
    let path = path.child("type");
    match kind {
        "" => Some(Error::required(&path, format!("type is required when {field} is set"))),
        kind if PROFILE_TYPES.contains(&kind) => None,
        kind => Some(Error::not_supported(&path, kind, &PROFILE_TYPES)),
    }
}

fn seccomp_problems(profile: &SeccompProfile, path: &Path) -> ErrorList {
    let mut errors: ErrorList = type_problem(&profile.type_, "seccompProfile", path).into_iter().collect();
    let path = path.child("localhostProfile");
    match (&*profile.type_, profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => {
            errors.push(Error::required(&path, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(file)) => {
            if file.starts_with('/') {
                errors.push(Error::invalid(&path, file, "must be a relative path"));
            }
            if file.split('/').any(|part| part == "..") {
                errors.push(Error::invalid(&path, file, "must not contain '..'"));
            }
        }
        (_, Some(_)) => {
            errors.push(Error::invalid(&path, to_json(profile), "can only be set when seccomp type is Localhost"));
        }
        (_, None) => {}
    }
    errors
}

fn app_armor_problems(profile: &AppArmorProfile, path: &Path) -> ErrorList {
    let kind = profile.type_.as_str();
    if let Some(problem) = type_problem(kind, "appArmorProfile", path) {
        return vec![problem];
    }
    let path = path.child("localhostProfile");
    let problem = match (kind, profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => Some(Error::required(&path, "must be set when AppArmor type is Localhost")),
        ("Localhost", Some(name)) if name.trim() != name => {
            Some(Error::invalid(&path, name, "must not be padded with whitespace"))
        }
        ("Localhost", Some(_)) | (_, None) => None,
        (_, Some(name)) => Some(Error::invalid(&path, name, "can only be set when AppArmor type is Localhost")),
    };
    problem.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::is_sysctl_name;

    #[test]
    fn sysctl_names_have_lower_case_components() {
        for (name, want) in [
            ("kernel.shm_rmid_forced", true),
            ("net/ipv4/ip-forward", true),
            ("a%b", false),
            ("A", false),
            ("a..b", false),
            ("a_", false),
        ] {
            assert_eq!(is_sysctl_name(name), want, "{name}");
        }
        assert!(!is_sysctl_name(&"a".repeat(254)));
    }
}
