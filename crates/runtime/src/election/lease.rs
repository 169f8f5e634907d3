//! The fields of the Lease that are read and written.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use types::Timestamp;
use types::clock::rfc3339_micros;
use types::kinds;

use super::ElectionSettings;

/// A Lease as the server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LeaseRecord {
    pub metadata: LeaseRecordMeta,
    pub spec: LeaseRecordSpec,
}

/// Its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseRecordMeta {
    pub resource_version: String,
}

/// The holder, and since when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseRecordSpec {
    pub holder_identity: Option<String>,
    pub lease_duration_seconds: Option<u32>,
    pub acquire_time: Option<Timestamp>,
    pub lease_transitions: Option<u32>,
}

impl LeaseRecord {
    /// The holder; `None` if the lease was released.
    pub fn holder(&self) -> Option<&str> {
        self.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// How long its holder may not renew it.
    pub fn duration(&self, settings: &ElectionSettings) -> Duration {
        self.spec.lease_duration_seconds.map_or(settings.lease_duration, |seconds| Duration::from_secs(seconds.into()))
    }

    /// The lease after its holder released it, so that the next one need not wait.
    pub fn released(&self, settings: &ElectionSettings, now: Timestamp) -> Value {
        self.document(settings, "", 1, self.spec.acquire_time.unwrap_or(now), self.transitions(), now)
    }

    /// The lease with us as its holder, taken over or renewed.
    pub fn acquired(&self, settings: &ElectionSettings, now: Timestamp) -> Value {
        let ours = self.holder() == Some(&settings.identity);
        let acquired = self.spec.acquire_time.filter(|_| ours).unwrap_or(now);
        // The first holder of a lease is not a transition.
        let taken_over = !ours && !self.metadata.resource_version.is_empty();
        let transitions = self.transitions() + u32::from(taken_over);
        let seconds = u32::try_from(settings.lease_duration.as_secs()).unwrap_or(u32::MAX);
        self.document(settings, &settings.identity, seconds, acquired, transitions, now)
    }

    fn transitions(&self) -> u32 {
        self.spec.lease_transitions.unwrap_or(0)
    }

    fn document(
        &self,
        settings: &ElectionSettings,
        holder: &str,
        seconds: u32,
        acquired: Timestamp,
        transitions: u32,
        now: Timestamp,
    ) -> Value {
        let mut metadata = json!({ "name": settings.name, "namespace": settings.namespace });
        if !self.metadata.resource_version.is_empty() {
            // Refused if another process was faster.
            metadata["resourceVersion"] = self.metadata.resource_version.clone().into();
        }
        json!({
            "apiVersion": kinds::LEASE.api_version(), "kind": kinds::LEASE.kind, "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": seconds,
                "acquireTime": rfc3339_micros(acquired),
                "renewTime": rfc3339_micros(now),
                "leaseTransitions": transitions,
            },
        })
    }
}
