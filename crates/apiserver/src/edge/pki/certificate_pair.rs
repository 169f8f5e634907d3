//! A certificate with its key: created, read back, and parsed.

use std::net::IpAddr;

use api::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::edge::pki::PkiError;
use crate::request::identity::Identity;

/// A certificate and its key.
#[derive(Clone)]
pub(super) struct CertificatePair {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    key_pem: String,
    info: CertificateInfo,
}

/// The fields of a certificate that we use.
#[derive(Clone, Debug)]
struct CertificateInfo {
    /// Common name of the subject.
    subject: String,
    /// Common name of the issuer.
    issuer: String,
    /// Seconds since 1970.
    not_before: i64,
    /// Seconds since 1970.
    not_after: i64,
    names: Vec<String>,
}

/// How long before the current time a certificate is already valid. Clocks differ, and a clock that was ahead when the
/// certificate was created may be corrected later.
const BACKDATED_DAYS: i64 = 365;

/// Starts [`BACKDATED_DAYS`] ago and ends after a number of days.
#[derive(Clone, Copy)]
pub(super) struct Lifetime {
    from: jiff::civil::Date,
    until: jiff::civil::Date,
}

impl Lifetime {
    pub fn days(now: Timestamp, days: i64) -> Lifetime {
        let date = |days: i64| {
            let then = now.saturating_add(jiff::SignedDuration::from_hours(days * 24));
            then.map_or(jiff::civil::Date::MAX, |then| then.to_zoned(jiff::tz::TimeZone::UTC).date())
        };
        Lifetime { from: date(-BACKDATED_DAYS), until: date(days) }
    }
}

impl CertificatePair {
    /// A self-signed CA.
    pub fn make_ca(name: &str, lifetime: Lifetime) -> Result<CertificatePair, PkiError> {
        let key = KeyPair::generate().map_err(making)?;
        let mut params = params(name, &[], lifetime);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(making)?;
        CertificatePair::made(&certificate.pem(), &key)
    }

    /// A server's certificate for `names`, issued by this CA.
    pub fn issue_server(&self, names: &[String], lifetime: Lifetime) -> Result<CertificatePair, PkiError> {
        let mut params = params("phalanx", &[], lifetime);
        for name in names {
            let of_one = CertificateParams::new(vec![name.clone()]).map_err(|_| PkiError::Name(name.clone()))?;
            params.subject_alt_names.extend(of_one.subject_alt_names);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// A client's certificate, issued by this CA: the user is its name, the groups are its organizations.
    pub fn issue_client(&self, identity: &Identity, lifetime: Lifetime) -> Result<CertificatePair, PkiError> {
        // The server adds this group to every authenticated user.
        let groups: Vec<&str> =
            identity.groups.iter().map(String::as_str).filter(|&group| group != "system:authenticated").collect();
        let mut params = params(&identity.user, &groups, lifetime);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<CertificatePair, PkiError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let ca_key = KeyPair::from_pem(&self.key_pem).map_err(making)?;
        let mut own = CertificateParams::default();
        own.distinguished_name = distinguished_name(&self.info.subject, &[]);
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().map_err(making)?;
        let certificate = params.signed_by(&key, &Issuer::new(own, ca_key)).map_err(making)?;
        CertificatePair::made(&certificate.pem(), &key)
    }

    fn made(certificate_pem: &str, key: &KeyPair) -> Result<CertificatePair, PkiError> {
        CertificatePair::from_pem(&format!("{certificate_pem}{}", key.serialize_pem())).map_err(PkiError::Making)
    }

    /// Parses the output of [`CertificatePair::to_pem`].
    pub fn from_pem(text: &str) -> Result<CertificatePair, String> {
        let certificate =
            CertificateDer::from_pem_slice(text.as_bytes()).map_err(|error| format!("no certificate: {error}"))?;
        let info = CertificateInfo::read(&certificate)?;
        let key_start = text.find("-----BEGIN PRIVATE KEY-----").ok_or("no private key")?;
        let (certificate_pem, key_pem) = text.split_at(key_start);
        KeyPair::from_pem(key_pem).map_err(|error| format!("no private key: {error}"))?;
        Ok(CertificatePair {
            certificate,
            certificate_pem: certificate_pem.to_owned(),
            key_pem: key_pem.to_owned(),
            info,
        })
    }

    /// The certificate, then the key.
    pub fn to_pem(&self) -> String {
        format!("{}{}", self.certificate_pem, self.key_pem)
    }

    /// When it becomes valid, in seconds since 1970.
    pub fn not_before(&self) -> i64 {
        self.info.not_before
    }

    /// When it expires, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.info.not_after
    }

    /// Whether `ca` issued it.
    pub fn is_issued_by(&self, ca: &CertificatePair) -> bool {
        self.info.issuer == ca.info.subject
    }

    /// Whether it is valid for a server of this name.
    pub fn covers_name(&self, name: &str) -> bool {
        self.info.names.iter().any(|own| own == &canonical(name))
    }

    /// The certificate.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// The certificate as text.
    pub fn certificate_pem(&self) -> String {
        self.certificate_pem.clone()
    }

    /// The key.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).expect("the key was parsed when the pair was created")
    }

    /// The key as text.
    pub fn key_pem(&self) -> String {
        self.key_pem.clone()
    }
}

impl CertificateInfo {
    fn read(certificate: &CertificateDer<'_>) -> Result<CertificateInfo, String> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|error| format!("not a certificate: {error}"))?;
        let common_name = |name: &x509_parser::x509::X509Name<'_>| {
            let first = name.iter_common_name().next();
            first.and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned()
        };
        let alternatives = parsed.subject_alternative_name().map_err(|error| format!("not a certificate: {error}"))?;
        let names = alternatives.into_iter().flat_map(|extension| &extension.value.general_names);
        Ok(CertificateInfo {
            subject: common_name(parsed.subject()),
            issuer: common_name(parsed.issuer()),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            names: names.filter_map(text_of).collect(),
        })
    }
}

fn text_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(canonical(name)),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            v4.or_else(|_| v6()).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// A name in its only spelling.
fn canonical(name: &str) -> String {
    name.parse::<IpAddr>().map_or_else(|_| name.to_ascii_lowercase(), |address| address.to_string())
}

fn params(name: &str, organizations: &[&str], lifetime: Lifetime) -> CertificateParams {
    let date = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(name, organizations);
    params.not_before = date(lifetime.from);
    params.not_after = date(lifetime.until);
    params
}

fn distinguished_name(name: &str, organizations: &[&str]) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    for &organization in organizations {
        distinguished.push(DnType::OrganizationName, organization);
    }
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn making(error: rcgen::Error) -> PkiError {
    PkiError::Making(error.to_string())
}
