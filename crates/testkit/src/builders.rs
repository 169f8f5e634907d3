//! Builders of one-line manifests: a test states only the fields it is about.

use serde_json::{Value, json};

/// A Job of one pod without scheduling fields.
pub fn job(name: &str) -> JobBuilder {
    JobBuilder(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {
            "metadata": {"annotations": {}},
            "spec": {"restartPolicy": "Never", "containers": [container()]},
        }},
    }))
}

/// A pod of one container without a group.
pub fn pod(name: &str) -> PodBuilder {
    PodBuilder(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {}},
        "spec": {"restartPolicy": "Never", "containers": [container()]},
    }))
}

fn container() -> Value {
    json!({"name": "main", "image": "registry.example/main:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}})
}

/// A Job under construction.
#[derive(Clone, Debug)]
pub struct JobBuilder(Value);

impl JobBuilder {
    /// Sets a field of the spec.
    #[must_use]
    pub fn spec(mut self, field: &str, value: impl Into<Value>) -> JobBuilder {
        self.0["spec"][field] = value.into();
        self
    }

    /// Parallelism and completions are `n`.
    #[must_use]
    pub fn pods(self, n: i32) -> JobBuilder {
        self.spec("parallelism", n).spec("completions", n)
    }

    /// Completion mode Indexed.
    #[must_use]
    pub fn indexed(self) -> JobBuilder {
        self.spec("completionMode", "Indexed")
    }

    /// A gang whose `minCount` follows parallelism.
    #[must_use]
    pub fn gang(mut self) -> JobBuilder {
        self.0["spec"]["scheduling"]["schedulingPolicy"] = json!({"gang": {}});
        self
    }

    /// All pods on nodes with the same value of the label `key`.
    #[must_use]
    pub fn in_topology(mut self, key: &str) -> JobBuilder {
        self.0["spec"]["scheduling"]["schedulingConstraints"] = json!({"topology": [{"key": key}]});
        self
    }

    /// Each pod requests `n` GPUs.
    #[must_use]
    pub fn gpus(mut self, n: i32) -> JobBuilder {
        let resources = &mut self.0["spec"]["template"]["spec"]["containers"][0]["resources"];
        resources["limits"] = json!({"nvidia.com/gpu": n.to_string()});
        self
    }

    /// Sets a field of the pods' spec.
    #[must_use]
    pub fn pod_spec(mut self, field: &str, value: impl Into<Value>) -> JobBuilder {
        self.0["spec"]["template"]["spec"][field] = value.into();
        self
    }

    /// Sets a field of the Job's own metadata.
    #[must_use]
    pub fn meta(mut self, field: &str, value: impl Into<Value>) -> JobBuilder {
        self.0["metadata"][field] = value.into();
        self
    }

    /// Pods that run until they are ended.
    #[must_use]
    pub fn run_forever(self) -> JobBuilder {
        self.annotate("phalanx.dev/run-seconds", "100000")
    }

    /// An annotation on the pods, such as `phalanx.dev/run-seconds`.
    #[must_use]
    pub fn annotate(mut self, key: &str, value: &str) -> JobBuilder {
        self.0["spec"]["template"]["metadata"]["annotations"][key] = value.into();
        self
    }

    /// The manifest.
    pub fn build(self) -> Value {
        self.0
    }
}

/// A pod under construction.
#[derive(Clone, Debug)]
pub struct PodBuilder(Value);

impl PodBuilder {
    /// The pod requests `n` GPUs.
    #[must_use]
    pub fn gpus(mut self, n: i32) -> PodBuilder {
        self.0["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": n.to_string()});
        self
    }

    /// An annotation, such as `phalanx.dev/run-seconds`.
    #[must_use]
    pub fn annotate(mut self, key: &str, value: &str) -> PodBuilder {
        self.0["metadata"]["annotations"][key] = value.into();
        self
    }

    /// The pod belongs to this PodGroup.
    #[must_use]
    pub fn group(mut self, name: &str) -> PodBuilder {
        self.0["spec"]["schedulingGroup"] = json!({"podGroupName": name});
        self
    }

    /// The manifest.
    pub fn build(self) -> Value {
        self.0
    }
}
