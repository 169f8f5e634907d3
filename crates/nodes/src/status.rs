//! The writes of a kubelet: a patch of `pods/status` for each step of a pod, and the final delete.

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{Condition, ContainerView, PodView};
use serde_json::{Value, json};

use crate::address;
use crate::pod_lifecycle::{
    EXIT_CODE_KILLED, EXIT_CODE_STOPPED, KubeletAction, PodRuntimeState, restarts, running_since,
};

/// One write.
#[derive(Debug, PartialEq)]
pub(crate) enum PodWrite {
    /// A merge patch of the pod's status.
    Status(Value),
    /// A delete with these options.
    Delete(Value),
}

/// The write that executes `action` at `now`.
pub(crate) fn write(pod: &PodView, action: &KubeletAction, state: &PodRuntimeState, now: Timestamp) -> PodWrite {
    let report = StatusBuilder { pod, state, now };
    PodWrite::Status(report.patch(match action {
        KubeletAction::Start => report.running(0, None),
        KubeletAction::Restart { exit_code } => report.running(restarts(pod) + 1, Some(*exit_code)),
        KubeletAction::BackOff { exit_code } => report.waiting(*exit_code),
        KubeletAction::Finish { exit_code } => report.ended(*exit_code),
        KubeletAction::Stop => report.ended(EXIT_CODE_STOPPED),
        KubeletAction::Kill => report.ended(EXIT_CODE_KILLED),
        KubeletAction::Refuse { message } => report.refused(message),
        KubeletAction::Remove => {
            return PodWrite::Delete(json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}));
        }
    }))
}

struct StatusBuilder<'a> {
    pod: &'a PodView,
    state: &'a PodRuntimeState,
    now: Timestamp,
}

impl StatusBuilder<'_> {
    /// The patch has the resourceVersion it was built from: a merge replaces whole lists, so it must fail if another client
    /// has written a condition meanwhile.
    fn patch(&self, mut status: Value) -> Value {
        let meta = &self.pod.metadata;
        if meta.generation > 0 {
            status["observedGeneration"] = json!(meta.generation);
        }
        if self.pod.status.start_time.is_none() {
            status["startTime"] = json!(rfc3339(self.state.first_seen));
        }
        json!({"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid}, "status": status})
    }

    /// All containers run. `last_exit_code`: the previous run ended with this.
    fn running(&self, restart_count: u32, last_exit_code: Option<i32>) -> Value {
        let state = json!({"running": {"startedAt": rfc3339(self.now)}});
        let last = last_exit_code.map(|exit_code| self.terminated(exit_code, self.state.last_end(self.now)));
        let pod_ip = address::of_pod(&self.pod.metadata.uid).to_string();
        let host_ip = address::of_node(&self.pod.spec.node_name).to_string();
        let mut status = json!({
            "phase": "Running",
            "conditions": self.conditions(("True", "", ""), ("True", "", "")),
            "hostIP": host_ip,
            "hostIPs": [{"ip": host_ip}],
            "podIP": pod_ip,
            "podIPs": [{"ip": pod_ip}],
            "containerStatuses": self.containers(&self.pod.spec.containers, &state, last.as_ref(), restart_count),
        });
        self.add_init_containers(&mut status, &state);
        status
    }

    /// All containers ended with `exit_code` and will be restarted.
    fn waiting(&self, exit_code: i32) -> Value {
        let state = json!({"waiting": {
            "reason": "CrashLoopBackOff",
            "message": "back-off restarting failed container",
        }});
        let last = self.terminated(exit_code, self.now);
        let names: Vec<&str> = self.pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
        let message = format!("containers with unready status: [{}]", names.join(" "));
        json!({
            "phase": "Running",
            "conditions": self.conditions(("True", "", ""), ("False", "ContainersNotReady", &message)),
            "containerStatuses": self.containers(&self.pod.spec.containers, &state, Some(&last), restarts(self.pod)),
        })
    }

    /// The pod has ended; containers that were running ended with `exit_code`.
    fn ended(&self, exit_code: i32) -> Value {
        let (phase, reason) = if exit_code == 0 { ("Succeeded", "PodCompleted") } else { ("Failed", "PodFailed") };
        // A pod that never started is not initialized either.
        let initialized = if self.has_started() { ("True", reason, "") } else { ("False", reason, "") };
        let mut status = json!({
            "phase": phase,
            "conditions": self.conditions(initialized, ("False", reason, "")),
        });
        if self.has_started() {
            let state = self.terminated(exit_code, self.now);
            let count = restarts(self.pod);
            status["containerStatuses"] = self.containers(&self.pod.spec.containers, &state, None, count);
            self.add_init_containers(&mut status, &self.terminated(0, self.now));
        }
        status
    }

    fn refused(&self, message: &str) -> Value {
        let mut status = self.ended(EXIT_CODE_STOPPED);
        status["reason"] = json!("InvalidAnnotation");
        status["message"] = json!(message);
        status
    }

    fn has_started(&self) -> bool {
        !self.pod.status.container_statuses.is_empty()
    }

    fn terminated(&self, exit_code: i32, finished: Timestamp) -> Value {
        let started = running_since(self.pod, self.state).or(self.state.started).unwrap_or(finished);
        json!({"terminated": {
            "exitCode": exit_code,
            "reason": if exit_code == 0 { "Completed" } else { "Error" },
            "startedAt": rfc3339(started),
            "finishedAt": rfc3339(finished),
        }})
    }

    /// Init containers ended before the others started; sidecars have the state of the main containers.
    fn add_init_containers(&self, status: &mut Value, sidecar_state: &Value) {
        if self.pod.spec.init_containers.is_empty() {
            return;
        }
        let completed = json!({"terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": rfc3339(self.state.first_seen),
            "finishedAt": rfc3339(self.state.first_seen),
        }});
        let report = |container: &ContainerView| {
            if container.is_restarted_always {
                return self.container(container, sidecar_state, None, 0);
            }
            let mut status = self.container(container, &completed, None, 0);
            // An init container is ready once it has completed.
            status["ready"] = json!(true);
            status
        };
        status["initContainerStatuses"] = self.pod.spec.init_containers.iter().map(report).collect();
    }

    fn containers(&self, containers: &[ContainerView], state: &Value, last: Option<&Value>, restarts: u32) -> Value {
        containers.iter().map(|container| self.container(container, state, last, restarts)).collect()
    }

    fn container(&self, container: &ContainerView, state: &Value, last: Option<&Value>, restarts: u32) -> Value {
        let is_running = state.get("running").is_some();
        let mut status = json!({
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "containerID": format!("simulated://{}/{}/{restarts}", self.pod.metadata.uid, container.name),
            "ready": is_running,
            "started": is_running,
            "restartCount": restarts,
            "state": state,
        });
        if let Some(last) = last {
            status["lastState"] = last.clone();
        }
        status
    }

    /// The pod's conditions, with those of the kubelet replaced. A tuple is status, reason, message.
    fn conditions(&self, initialized: (&str, &str, &str), ready: (&str, &str, &str)) -> Value {
        let ours = [("Initialized", initialized), ("Ready", ready), ("ContainersReady", ready)];
        let before = &self.pod.status.conditions;
        let others = before.iter().filter(|condition| ours.iter().all(|(kind, _)| *kind != condition.kind));
        let time = |time: Option<Timestamp>| time.map(rfc3339);
        let mut all: Vec<Value> = others
            .map(|c| condition(&c.kind, (&c.status, &c.reason, &c.message), time(c.last_transition_time)))
            .collect();
        for (kind, wanted) in ours {
            let is_same = |condition: &&Condition| condition.kind == kind && condition.status == wanted.0;
            let since = before.iter().find(is_same).and_then(|condition| condition.last_transition_time);
            all.push(condition(kind, wanted, time(since.or(Some(self.now)))));
        }
        Value::Array(all)
    }
}

fn condition(kind: &str, (status, reason, message): (&str, &str, &str), since: Option<String>) -> Value {
    let mut condition = json!({"type": kind, "status": status});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[field] = json!(text);
        }
    }
    if let Some(since) = since {
        condition["lastTransitionTime"] = json!(since);
    }
    condition
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use api::Revision;
    use api::views::{ContainerRunningView, ContainerStatusView, PodPhase};
    use insta::assert_json_snapshot;

    /// A pod on node `n`, with one container.
    pub fn bound(restart_policy: &str) -> PodView {
        let mut pod = PodView::default();
        pod.metadata.namespace = "default".to_owned();
        pod.metadata.name = "a".to_owned();
        pod.metadata.uid = "u".to_owned();
        pod.metadata.resource_version = Revision(7);
        pod.spec.node_name = "n".to_owned();
        pod.spec.restart_policy = restart_policy.into();
        pod.spec.containers.push(ContainerView { name: "main".to_owned(), ..ContainerView::default() });
        pod
    }

    /// `pod` with the status of a phase, its container running unless the phase is Pending.
    pub fn in_phase(mut pod: PodView, phase: PodPhase, restart_count: i32) -> PodView {
        pod.status.phase = phase;
        if phase != PodPhase::Pending {
            let mut status = ContainerStatusView { name: "main".to_owned(), restart_count, ..Default::default() };
            status.state.running = Some(ContainerRunningView::default());
            pod.status.container_statuses.push(status);
            pod.status.start_time = Some(Timestamp::UNIX_EPOCH);
        }
        pod
    }

    fn patch(pod: &PodView, action: &KubeletAction, state: &PodRuntimeState, now: Timestamp) -> Value {
        match write(pod, action, state, now) {
            PodWrite::Status(patch) => patch,
            PodWrite::Delete(options) => panic!("a delete with {options}"),
        }
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn a_start_reports_running_containers_and_keeps_the_conditions_of_others() {
        let mut pod = bound("Never");
        let scheduled = Condition {
            kind: "PodScheduled".to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(second(3)),
            ..Condition::default()
        };
        pod.status.conditions.push(scheduled);
        pod.metadata.generation = 1;
        for (name, is_restarted_always) in [("init", false), ("sidecar", true)] {
            let container = ContainerView { name: name.to_owned(), is_restarted_always, ..ContainerView::default() };
            pod.spec.init_containers.push(container);
        }
        assert_json_snapshot!(patch(&pod, &KubeletAction::Start, &PodRuntimeState::first_seen_at(second(4)), second(5)), @r#"
        {
          "metadata": {
            "resourceVersion": "7",
            "uid": "u"
          },
          "status": {
            "conditions": [
              {
                "lastTransitionTime": "1970-01-01T00:00:03Z",
                "status": "True",
                "type": "PodScheduled"
              },
              {
                "lastTransitionTime": "1970-01-01T00:00:05Z",
                "status": "True",
                "type": "Initialized"
              },
              {
                "lastTransitionTime": "1970-01-01T00:00:05Z",
                "status": "True",
                "type": "Ready"
              },
              {
                "lastTransitionTime": "1970-01-01T00:00:05Z",
                "status": "True",
                "type": "ContainersReady"
              }
            ],
            "containerStatuses": [
              {
                "containerID": "simulated://u/main/0",
                "image": "",
                "imageID": "",
                "name": "main",
                "ready": true,
                "restartCount": 0,
                "started": true,
                "state": {
                  "running": {
                    "startedAt": "1970-01-01T00:00:05Z"
                  }
                }
              }
            ],
            "hostIP": "10.226.27.61",
            "hostIPs": [
              {
                "ip": "10.226.27.61"
              }
            ],
            "initContainerStatuses": [
              {
                "containerID": "simulated://u/init/0",
                "image": "",
                "imageID": "",
                "name": "init",
                "ready": true,
                "restartCount": 0,
                "started": false,
                "state": {
                  "terminated": {
                    "exitCode": 0,
                    "finishedAt": "1970-01-01T00:00:04Z",
                    "reason": "Completed",
                    "startedAt": "1970-01-01T00:00:04Z"
                  }
                }
              },
              {
                "containerID": "simulated://u/sidecar/0",
                "image": "",
                "imageID": "",
                "name": "sidecar",
                "ready": true,
                "restartCount": 0,
                "started": true,
                "state": {
                  "running": {
                    "startedAt": "1970-01-01T00:00:05Z"
                  }
                }
              }
            ],
            "observedGeneration": 1,
            "phase": "Running",
            "podIP": "10.97.232.188",
            "podIPs": [
              {
                "ip": "10.97.232.188"
              }
            ],
            "startTime": "1970-01-01T00:00:04Z"
          }
        }
        "#);
    }

    #[test]
    fn an_end_reports_exit_codes_and_times() {
        let mut pod = in_phase(bound("Never"), PodPhase::Running, 0);
        let ready = |status: &str| Condition {
            kind: "Ready".to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(second(5)),
            ..Condition::default()
        };
        pod.status.conditions.push(ready("True"));
        let state = PodRuntimeState { started: Some(second(5)), ..PodRuntimeState::first_seen_at(second(4)) };
        assert_json_snapshot!(patch(&pod, &KubeletAction::Finish { exit_code: 3 }, &state, second(9)), @r#"
        {
          "metadata": {
            "resourceVersion": "7",
            "uid": "u"
          },
          "status": {
            "conditions": [
              {
                "lastTransitionTime": "1970-01-01T00:00:09Z",
                "reason": "PodFailed",
                "status": "True",
                "type": "Initialized"
              },
              {
                "lastTransitionTime": "1970-01-01T00:00:09Z",
                "reason": "PodFailed",
                "status": "False",
                "type": "Ready"
              },
              {
                "lastTransitionTime": "1970-01-01T00:00:09Z",
                "reason": "PodFailed",
                "status": "False",
                "type": "ContainersReady"
              }
            ],
            "containerStatuses": [
              {
                "containerID": "simulated://u/main/0",
                "image": "",
                "imageID": "",
                "name": "main",
                "ready": false,
                "restartCount": 0,
                "started": false,
                "state": {
                  "terminated": {
                    "exitCode": 3,
                    "finishedAt": "1970-01-01T00:00:09Z",
                    "reason": "Error",
                    "startedAt": "1970-01-01T00:00:05Z"
                  }
                }
              }
            ],
            "phase": "Failed"
          }
        }
        "#);
        pod.status.conditions = vec![ready("False")];
        let patch = patch(&pod, &KubeletAction::Stop, &state, second(9));
        assert_eq!(patch["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
        assert_eq!(
            patch["status"]["conditions"][1]["lastTransitionTime"],
            rfc3339(second(5)),
            "the pod was not ready before"
        );
    }

    #[test]
    fn a_crash_loop_counts_restarts_and_reports_the_last_end() {
        let pod = in_phase(bound("OnFailure"), PodPhase::Running, 2);
        let mut state = PodRuntimeState { started: Some(second(5)), ..PodRuntimeState::first_seen_at(second(4)) };
        let back_off = KubeletAction::BackOff { exit_code: 3 };
        let waiting = patch(&pod, &back_off, &state, second(6));
        state.record(&back_off, second(6));
        let restarted = patch(&pod, &KubeletAction::Restart { exit_code: 3 }, &state, second(26));
        for (patch, state_name, count) in [(waiting, "waiting", 2), (restarted, "running", 3)] {
            let container = &patch["status"]["containerStatuses"][0];
            assert!(container["state"].get(state_name).is_some(), "{container}");
            assert_eq!(container["restartCount"], count);
            assert_eq!(container["lastState"]["terminated"]["finishedAt"], rfc3339(second(6)));
            assert_eq!(container["lastState"]["terminated"]["startedAt"], rfc3339(second(5)));
            assert_eq!(patch["status"]["phase"], "Running");
        }
    }

    #[test]
    fn a_pod_that_never_started_fails_without_containers() {
        let refuse = KubeletAction::Refuse { message: "annotation x".to_owned() };
        assert_json_snapshot!(patch(&bound("Never"), &refuse, &PodRuntimeState::first_seen_at(second(4)), second(5)), @r#"
        {
          "metadata": {
            "resourceVersion": "7",
            "uid": "u"
          },
          "status": {
            "conditions": [
              {
                "lastTransitionTime": "1970-01-01T00:00:05Z",
                "reason": "PodFailed",
                "status": "False",
                "type": "Initialized"
              },
              {
                "lastTransitionTime": "1970-01-01T00:00:05Z",
                "reason": "PodFailed",
                "status": "False",
                "type": "Ready"
              },
              {
                "lastTransitionTime": "1970-01-01T00:00:05Z",
                "reason": "PodFailed",
                "status": "False",
                "type": "ContainersReady"
              }
            ],
            "message": "annotation x",
            "phase": "Failed",
            "reason": "InvalidAnnotation",
            "startTime": "1970-01-01T00:00:04Z"
          }
        }
        "#);
    }
}
