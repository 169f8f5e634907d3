//! CPU and writes of kube-apiserver between a scheduler's readiness and the last bind. They show what limits the
//! figures.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use kube::Client;
use serde_json::{Value, json};
use supervisor::kubernetes::KubeControlPlane;

use super::load::BindTimes;
use crate::jobs::WriteCounts;
use crate::pod_life::cpu_seconds_of;

/// The processes of the server.
#[derive(Clone, Copy)]
pub struct ServerPids {
    kube_apiserver: u32,
    etcd: u32,
}

impl ServerPids {
    pub fn of(control_plane: &KubeControlPlane) -> anyhow::Result<ServerPids> {
        let id = |name: &str| control_plane.pid(name).with_context(|| format!("{name} runs"));
        Ok(ServerPids { kube_apiserver: id("kube-apiserver")?, etcd: id("etcd")? })
    }

    fn cpu(self) -> anyhow::Result<[f64; 2]> {
        let of = |id: u32| cpu_seconds_of(Path::new(&format!("/proc/{id}/stat")));
        Ok([of(self.kube_apiserver)?, of(self.etcd)?])
    }
}

/// From the readiness to the last bind.
pub struct MeasurementWindow {
    /// From the readiness to the first bind.
    pub first_bind_seconds: f64,
    /// From the readiness to half of the binds.
    half_bound_seconds: f64,
    /// CPU time of kube-apiserver.
    pub apiserver_cpu_seconds: f64,
    /// CPU time of etcd.
    etcd_cpu_seconds: f64,
    /// Writes that the server accepted, by resource, including those of the scheduler's start.
    writes: WriteCounts,
}

/// The values before the window.
pub struct WindowStart {
    server: ServerPids,
    writes: WriteCounts,
}

impl WindowStart {
    /// Read before the scheduler starts, because the server takes a while to return its metrics.
    pub async fn now(client: &Client, server: ServerPids) -> anyhow::Result<WindowStart> {
        Ok(WindowStart { server, writes: WriteCounts::now(client).await? })
    }

    /// CPU time of kube-apiserver and of etcd so far.
    pub fn cpu(&self) -> anyhow::Result<[f64; 2]> {
        self.server.cpu()
    }

    /// The window from `ready`, when the server had used `cpu`, until the last bind.
    pub async fn finish(
        self,
        client: &Client,
        ready: Instant,
        cpu: [f64; 2],
        binds: BindTimes,
    ) -> anyhow::Result<MeasurementWindow> {
        let now = self.cpu()?;
        let after = |then: Instant| then.saturating_duration_since(ready).as_secs_f64();
        Ok(MeasurementWindow {
            first_bind_seconds: after(binds.first),
            half_bound_seconds: after(binds.half),
            apiserver_cpu_seconds: now[0] - cpu[0],
            etcd_cpu_seconds: now[1] - cpu[1],
            writes: WriteCounts::now(client).await?.since(&self.writes),
        })
    }
}

impl MeasurementWindow {
    pub fn to_json(&self) -> Value {
        json!({
            "first_seconds": self.first_bind_seconds,
            "half_seconds": self.half_bound_seconds,
            "server_cpu_seconds": self.apiserver_cpu_seconds,
            "etcd_cpu_seconds": self.etcd_cpu_seconds,
            "writes": self.writes.per_resource(),
        })
    }
}
