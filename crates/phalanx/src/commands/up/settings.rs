//! The settings of `phalanx up`: options over file over defaults.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use apiserver::AuditSink;
use controlplane::up::{DataLocation, UpSettings};
use nodes::cluster::Cluster;

use crate::commands::up::UpArgs;
use crate::config::{Configuration, ListenAddress};
use crate::gates;
use crate::manifest::Problem;
use crate::run;

/// Why `up` cannot start.
pub enum SettingsError {
    /// A file has problems.
    Input(Vec<Problem>),
    /// An option has a bad value.
    Usage(String),
    /// A file or directory cannot be used.
    Start(String),
}

/// Options over file over defaults.
pub fn resolve(args: &UpArgs) -> Result<UpSettings, SettingsError> {
    let mut file = Configuration::read_or_default(args.config.as_deref()).map_err(SettingsError::Input)?;
    file.nodes.run_seconds = args.run_seconds.unwrap_or(file.nodes.run_seconds);
    let (listen, host) = match (&args.listen, &args.config) {
        (None, Some(config)) => listen(&format!("{}: server.listen", config.display()), &file.server.listen),
        (option, _) => listen("--listen", option.as_deref().unwrap_or(&file.server.listen)),
    }?;
    let (cluster, first_nodes) = cluster(args, &file).map_err(SettingsError::Input)?;
    let gates = gates::resolve(&args.feature_gates, &file.server.feature_gates).map_err(SettingsError::Usage)?;
    let mut plane = file.plane(gates, cluster);
    plane.components.retain(|component| !args.without.iter().any(|omitted| omitted.component() == *component));
    plane.audit = args.audit_log.as_deref().map(audit).transpose()?;
    let (limits, history) = file.server.limits();
    Ok(UpSettings {
        data: if args.in_memory { DataLocation::Memory } else { DataLocation::Directory(args.data_dir.clone()) },
        listen,
        history,
        limits,
        certificate_names: file.server.cert_sans.into_iter().chain(host).collect(),
        // Only in debug builds: a test plants this data loss to show that the kill test detects it.
        acknowledge_early: cfg!(debug_assertions) && std::env::var_os("PHALANX_TEST_ACK_EARLY").is_some(),
        first_nodes,
        plane,
    })
}

/// The addresses of `HOST:PORT`, and the host where it is a name. `source` says where the user wrote it.
fn listen(source: &str, text: &str) -> Result<(Vec<SocketAddr>, Option<String>), SettingsError> {
    // Without a host, only this machine can connect.
    let full = if text.starts_with(':') { format!("127.0.0.1{text}") } else { text.to_owned() };
    let bad = |reason: &str| SettingsError::Usage(format!("{source} {text}: {reason}"));
    if let Some(problem) = ListenAddress::syntax_error(text) {
        return Err(bad(&problem));
    }
    let addresses: Vec<SocketAddr> = full.to_socket_addrs().map_err(|error| bad(&error.to_string()))?.collect();
    if addresses.is_empty() {
        return Err(bad("no such host"));
    }
    let is_address = full.parse::<SocketAddr>().is_ok();
    let host = full.rsplit_once(':').map(|(host, _)| host.to_owned()).filter(|_| !is_address);
    Ok((addresses, host))
}

/// The nodes of options and file, and the nodes for a cluster that has none.
fn cluster(args: &UpArgs, file: &Configuration) -> Result<(Cluster, Cluster), Vec<Problem>> {
    let chosen = run::resolve_cluster(args.cluster.as_deref(), args.nodes, file)?;
    Ok(match chosen {
        Some(cluster) => (cluster, Cluster::default()),
        None => (Cluster::default(), Cluster::default_of(run::DEFAULT_NODES)),
    })
}

/// Appends a line of JSON for every request that writes.
fn audit(file: &Path) -> Result<AuditSink, SettingsError> {
    let open = OpenOptions::new().create(true).append(true).mode(0o600).open(file);
    let log = open.map_err(|error| {
        SettingsError::Start(format!("--audit-log {}: {error}; choose another file", file.display()))
    })?;
    let log = Mutex::new(log);
    Ok(Arc::new(move |entry| {
        let mut line = serde_json::to_vec(entry).expect("an entry has only strings and numbers");
        line.push(b'\n');
        // One write call per line, so that lines of two processes do not mix.
        if let Err(error) = log.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line) {
            tracing::error!("audit log: a line is lost: {error}");
        }
    }))
}
