//! Authentication of a client: by the subject of a certificate of our CA, or by the token.

use http::{HeaderMap, header};
use rustls::pki_types::CertificateDer;
use subtle::ConstantTimeEq;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::request::identity::Identity;

const AUTHENTICATED: &str = "system:authenticated";

/// The subject of a certificate that the handshake has verified: its common name is the user, its organizations are the
/// groups. `None` without a common name.
pub(super) fn by_certificate(chain: &[CertificateDer<'_>]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(chain.first()?).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|name| name.as_str().ok());
    let groups = groups.filter(|&group| group != AUTHENTICATED).chain([AUTHENTICATED]).map(str::to_owned).collect();
    (!user.is_empty()).then_some(Identity { user, groups })
}

/// The administrator, when the request has `token`.
pub(super) fn by_token(headers: &HeaderMap, token: &str) -> Option<Identity> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, given) = value.split_at_checked("Bearer ".len())?;
    // Constant time: the duration of the comparison reveals nothing about the token.
    let is_token = bool::from(given.trim_ascii().ct_eq(token.as_bytes()));
    (scheme.eq_ignore_ascii_case(b"Bearer ") && is_token).then(Identity::admin)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_exact_token_authenticates() {
        let token = "0123456789abcdef";
        for (value, is_accepted) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer ", false),
            ("Bearer", false),
            ("Basic 0123456789abcdef", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(by_token(&headers, token).is_some(), is_accepted, "{value:?}");
        }
        assert_eq!(by_token(&HeaderMap::new(), token), None);
    }
}
