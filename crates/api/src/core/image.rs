//! The tag of an image reference: `host:5000/team/name:tag@sha256:…`.

/// The maximum length of a path, and the prefix of an image without a registry and without a slash.
const MAX_PATH_BYTES: usize = 255;
const DEFAULT_REPOSITORY_PREFIX: &str = "library/";
const MAX_TAG_BYTES: usize = 128;
/// The digest algorithms, and their number of digits.
const DIGEST_LENGTHS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// The tag of an image: `latest` if the reference has neither a tag nor a digest. An invalid reference has none.
pub(super) fn tag(image: &str) -> Option<&str> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    // A colon before the last slash is that of the registry's port.
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let colon = name[last..].find(':').map(|colon| last + colon);
    let (repository, tag) = colon.map_or((name, None), |colon| (&name[..colon], Some(&name[colon + 1..])));
    let well_formed = is_repository(repository) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    let default = digest.is_none().then_some("latest");
    tag.or(default).filter(|_| well_formed)
}

fn is_repository(name: &str) -> bool {
    // A name of 64 hexadecimal digits is an image id.
    if name.len() == 64 && name.bytes().all(is_hex) {
        return false;
    }
    let registry = name.split_once('/').filter(|(first, _)| looks_like_host(first));
    let path = registry.map_or(name, |(_, path)| path);
    let folder = if registry.is_none() && !path.contains('/') { DEFAULT_REPOSITORY_PREFIX.len() } else { 0 };
    registry.is_none_or(|(host, _)| is_host(host))
        && path.split('/').all(is_path_component)
        && path.len() + folder <= MAX_PATH_BYTES
}

/// A first component that cannot be a folder is the registry.
fn looks_like_host(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_label = |label: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(known) && !label.starts_with('-') && !label.ends_with('-')
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_address = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
        && address.map_or_else(|| name.split('.').all(is_label), is_address)
}

/// Letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn is_path_component(part: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let between = part.trim_matches(is_plain);
    let separators = between.split(is_plain).filter(|separator| !separator.is_empty());
    part.starts_with(is_plain)
        && part.ends_with(is_plain)
        && separators.into_iter().all(|text| matches!(text, "." | "_" | "__") || text.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let known = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'-');
    tag.len() <= MAX_TAG_BYTES && tag.bytes().next().is_some_and(is_word) && tag.bytes().all(known)
}

fn is_digest(digest: &str) -> bool {
    let Some((kind, digits)) = digest.split_once(':') else { return false };
    DIGEST_LENGTHS.contains(&(kind, digits.len())) && digits.bytes().all(is_hex)
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn only_valid_references_have_a_tag() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (image, want) in [
            ("x".to_owned(), Some("latest")),
            ("x:1".to_owned(), Some("1")),
            ("host:5000/x".to_owned(), Some("latest")),
            ("Host/x".to_owned(), Some("latest")),
            ("[::1]:5000/x".to_owned(), Some("latest")),
            ("a_b/c__d/e--f".to_owned(), Some("latest")),
            (format!("x@{digest}"), None),
            (format!("x:latest@{digest}"), Some("latest")),
            ("x:latest@sha256:abc".to_owned(), None),
            ("a".repeat(247), Some("latest")),
            ("a".repeat(248), None),
            ("0".repeat(64), None),
            (format!("x:{}", "t".repeat(129)), None),
        ] {
            assert_eq!(tag(&image), want, "{image}");
        }
        for image in
            ["", "a..b", "X", "a/X", "a___b", "-a", "a-", "a:", "a:.x", "a:1:2", "a/", "/a", "a//b", "host:/a", "a b"]
        {
            assert_eq!(tag(image), None, "{image}");
        }
    }
}
