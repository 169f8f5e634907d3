//! Certificates and the token: created once, stored in a directory that only its owner can read, renewed before they
//! expire.
//!
//! A certificate and its key are in one file, so a crash cannot separate them.

mod certificate_pair; // a certificate with its key, and its fields

use std::path::{Path, PathBuf};

use api::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use store::disk::directory;

use crate::edge::pki::certificate_pair::CertificatePair;
use crate::edge::private_file;
use crate::request::identity::Identity;

/// Names that the server's certificate always has.
const NAMES: [&str; 6] =
    ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
const CA_DAYS: i64 = 3650;
const LEAF_DAYS: i64 = 365;
/// A certificate is renewed when it expires within this time.
const RENEW_DAYS: i64 = 30;
const TOKEN_BYTES: usize = 32;

/// The server's credentials, and the CA and token that it trusts.
#[derive(Clone)]
pub struct Pki {
    ca: CertificatePair,
    server: CertificatePair,
    admin: CertificatePair,
    token: String,
}

/// Why certificates or the token are not available.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("{}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file exists, but its content is not valid.
    #[error("{}: {reason}; remove it to create a new one", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The problem.
        reason: String,
    },
    /// A host name is not valid in a certificate.
    #[error("{0:?} is neither an address nor a host name of the server")]
    Name(String),
    /// Keys or certificates cannot be created.
    #[error("cannot create certificates: {0}")]
    Making(String),
    /// The TLS library refuses the certificates.
    #[error("TLS refuses the certificates: {0}")]
    Tls(String),
}

impl PkiError {
    pub(super) fn tls(error: impl std::fmt::Display) -> PkiError {
        PkiError::Tls(error.to_string())
    }
}

impl Pki {
    /// Loads the files in `dir`. Files that are missing, about to expire or not valid yet are created. The server's
    /// certificate has `hosts` and the local names of this machine.
    pub fn ensure(dir: &Path, hosts: &[String], now: Timestamp) -> Result<Pki, PkiError> {
        let fail = |source| PkiError::File { file: dir.to_owned(), source };
        private_file::make_dir(dir).map_err(fail)?;
        let metadata = std::fs::symlink_metadata(dir).map_err(fail)?;
        let cause = match directory::exposure(&metadata) {
            _ if metadata.is_symlink() => Some("is a link, and links are not followed here".to_owned()),
            exposure => exposure,
        };
        match cause {
            // Another user may have written the files in it.
            Some(cause) => Err(PkiError::Damaged { file: dir.to_owned(), reason: format!("it {cause}") }),
            None => Pki::load_or_create(Some(dir), hosts, now),
        }
    }

    /// The same in memory, for the lifetime of the process.
    pub fn in_memory(hosts: &[String], now: Timestamp) -> Result<Pki, PkiError> {
        Pki::load_or_create(None, hosts, now)
    }

    fn load_or_create(dir: Option<&Path>, hosts: &[String], now: Timestamp) -> Result<Pki, PkiError> {
        let names: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).chain(hosts.iter().cloned()).collect();
        let is_current = |pair: &CertificatePair| {
            let has_begun = pair.not_before() <= now.as_second();
            if !has_begun {
                tracing::warn!(
                    "a certificate is not valid before {}, which the clock has not reached ({now}): the clock was ahead \
                     when it was made, or is behind now; a new one is made, and clients need the new kubeconfig",
                    Timestamp::from_second(pair.not_before()).map_or_else(|_| "?".to_owned(), |then| then.to_string())
                );
            }
            has_begun && pair.not_after() >= now.as_second() + RENEW_DAYS * 86_400
        };
        let file = |name: &str| dir.map(|dir| dir.join(name));
        let ca = load_or_create_pair(file("ca.pem"), is_current, || {
            // The name is random, so that a certificate of an earlier CA is never accepted as one of this CA.
            CertificatePair::make_ca(
                &format!("phalanx-ca-{}", &random_hex(8)?),
                certificate_pair::Lifetime::days(now, CA_DAYS),
            )
        })?;
        let server = load_or_create_pair(
            file("server.pem"),
            |pair| is_current(pair) && pair.is_issued_by(&ca) && names.iter().all(|name| pair.covers_name(name)),
            || ca.issue_server(&names, certificate_pair::Lifetime::days(now, LEAF_DAYS)),
        )?;
        let admin = load_or_create_pair(
            file("admin.pem"),
            |pair| is_current(pair) && pair.is_issued_by(&ca),
            || ca.issue_client(&Identity::admin(), certificate_pair::Lifetime::days(now, LEAF_DAYS)),
        )?;
        let token = load_or_create_token(file("token"))?;
        Ok(Pki { ca, server, admin, token })
    }

    /// The bearer token of the administrator.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The CA's certificate.
    pub fn ca_certificate_pem(&self) -> String {
        self.ca.certificate_pem()
    }

    /// The administrator's certificate.
    pub fn admin_certificate_pem(&self) -> String {
        self.admin.certificate_pem()
    }

    /// The key of [`Pki::admin_certificate_pem`].
    pub fn admin_key_pem(&self) -> String {
        self.admin.key_pem()
    }

    /// Certificate and key of another client, valid for a year from `now`.
    pub fn issue_client(&self, identity: &Identity, now: Timestamp) -> Result<(String, String), PkiError> {
        let client = self.ca.issue_client(identity, certificate_pair::Lifetime::days(now, LEAF_DAYS))?;
        Ok((client.certificate_pem(), client.key_pem()))
    }

    pub(super) fn ca_certificate(&self) -> Result<CertificateDer<'static>, PkiError> {
        Ok(self.ca.certificate())
    }

    pub(super) fn server_identity(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), PkiError> {
        Ok((vec![self.server.certificate()], self.server.key()))
    }
}

/// The pair in `file` if it exists and is usable, else a new one, which is stored there.
fn load_or_create_pair(
    file: Option<PathBuf>,
    is_usable: impl FnOnce(&CertificatePair) -> bool,
    make: impl FnOnce() -> Result<CertificatePair, PkiError>,
) -> Result<CertificatePair, PkiError> {
    let Some(file) = file else { return make() };
    if let Some(text) = read(&file)? {
        let pair =
            CertificatePair::from_pem(&text).map_err(|reason| PkiError::Damaged { file: file.clone(), reason })?;
        if is_usable(&pair) {
            return Ok(pair);
        }
    }
    let pair = make()?;
    write(file, &pair.to_pem())?;
    Ok(pair)
}

fn load_or_create_token(file: Option<PathBuf>) -> Result<String, PkiError> {
    let Some(file) = file else { return random_hex(TOKEN_BYTES) };
    if let Some(text) = read(&file)? {
        let token = text.trim();
        // A short token could be guessed, and an empty one would match every request without a token.
        return match token.len() >= TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(token.to_owned()),
            false => {
                Err(PkiError::Damaged { file, reason: format!("not a token of {TOKEN_BYTES} characters or more") })
            }
        };
    }
    let token = random_hex(TOKEN_BYTES)?;
    write(file, &format!("{token}\n"))?;
    Ok(token)
}

fn read(file: &Path) -> Result<Option<String>, PkiError> {
    private_file::read(file).map_err(|source| match directory::is_untrusted(&source) {
        true => PkiError::Damaged { file: file.to_owned(), reason: source.to_string() },
        false => PkiError::File { file: file.to_owned(), source },
    })
}

fn write(file: PathBuf, text: &str) -> Result<(), PkiError> {
    private_file::write(&file, text.as_bytes()).map_err(|source| PkiError::File { file, source })
}

/// Secrets come from the operating system, never from the seeded generator.
fn random_hex(bytes: usize) -> Result<String, PkiError> {
    let mut random = vec![0; bytes];
    let source = ring::default_provider().secure_random;
    source.fill(&mut random).map_err(|_| PkiError::Making("the operating system provides no randomness".to_owned()))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
