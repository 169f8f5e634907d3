//! What the real server did between a scheduler's readiness and the last bind: what limits the figure beside it.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use kube::Client;
use serde_json::{Value, json};

use super::load::Seen;
use crate::bench_jobs::Writes;
use crate::bench_life::cpu_seconds_of;
use crate::kube::ControlPlane;

/// The programs of the real server, by process.
#[derive(Clone, Copy)]
pub struct Server {
    kube_apiserver: u32,
    etcd: u32,
}

impl Server {
    pub fn of(control_plane: &ControlPlane) -> anyhow::Result<Server> {
        let id = |name: &str| control_plane.id(name).with_context(|| format!("{name} runs"));
        Ok(Server { kube_apiserver: id("kube-apiserver")?, etcd: id("etcd")? })
    }

    fn cpu(self) -> anyhow::Result<[f64; 2]> {
        let of = |id: u32| cpu_seconds_of(Path::new(&format!("/proc/{id}/stat")));
        Ok([of(self.kube_apiserver)?, of(self.etcd)?])
    }
}

/// From the readiness to the last bind.
pub struct Window {
    /// From the readiness to the first bind.
    pub first_seconds: f64,
    /// From the readiness to half of the binds.
    half_seconds: f64,
    /// CPU time of kube-apiserver.
    pub server_seconds: f64,
    /// CPU time of etcd.
    etcd_seconds: f64,
    /// Writes that the server accepted, by resource; those of the scheduler's start are among them.
    writes: Writes,
}

/// How things stood before.
pub struct Before {
    server: Server,
    writes: Writes,
}

impl Before {
    /// Asked before the scheduler starts: the server takes a while to tell its metrics.
    pub async fn now(client: &Client, server: Server) -> anyhow::Result<Before> {
        Ok(Before { server, writes: Writes::now(client).await? })
    }

    /// CPU time of kube-apiserver and of etcd so far.
    pub fn cpu(&self) -> anyhow::Result<[f64; 2]> {
        self.server.cpu()
    }

    /// The window that began at `ready`, when the server had used `cpu`, and ended with the binds that were seen.
    pub async fn window(self, client: &Client, ready: Instant, cpu: [f64; 2], seen: Seen) -> anyhow::Result<Window> {
        let now = self.cpu()?;
        let after = |then: Instant| then.saturating_duration_since(ready).as_secs_f64();
        Ok(Window {
            first_seconds: after(seen.first),
            half_seconds: after(seen.half),
            server_seconds: now[0] - cpu[0],
            etcd_seconds: now[1] - cpu[1],
            writes: Writes::now(client).await?.since(&self.writes),
        })
    }
}

impl Window {
    pub fn to_json(&self) -> Value {
        json!({
            "first_seconds": self.first_seconds,
            "half_seconds": self.half_seconds,
            "server_cpu_seconds": self.server_seconds,
            "etcd_cpu_seconds": self.etcd_seconds,
            "writes": self.writes.per_resource(),
        })
    }
}
