//! The end state of a run, in a form in which two runs can be compared (promise 9), and the invariants that hold at
//! every write.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use testkit::RecordedWrite;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The kinds that belong to Jobs.
const KINDS: [(&str, &str); 5] = [
    ("batch/cronjobs", "CronJob"),
    ("batch/jobs", "Job"),
    ("pods", "Pod"),
    ("scheduling.k8s.io/workloads", "Workload"),
    ("scheduling.k8s.io/podgroups", "PodGroup"),
];

/// All objects after the last write, one line for each. Two runs with the same lines are equivalent: generated names,
/// uids, nodes and times are left out, and owners are named by their kind and role.
pub fn end_state_lines(history: &[RecordedWrite]) -> Vec<String> {
    let objects = Objects::from_history(history);
    let mut lines: Vec<String> = objects.0.values().map(|(kind, object)| objects.line(kind, object)).collect();
    lines.sort();
    lines
}

/// Asserts that two runs have the same end state; the message has the lines of only one of them.
pub fn assert_equivalent(found: &[String], want: &[String], case: &str) {
    if found == want {
        return;
    }
    let only = |these: &[String], those: &[String]| {
        let mut rest = those.to_vec();
        let missing = |line: &&String| rest.iter().position(|one| one == *line).map(|at| rest.remove(at)).is_none();
        these.iter().filter(missing).cloned().collect::<Vec<_>>().join("\n  ")
    };
    panic!("{case}\nonly here:\n  {}\nonly without faults:\n  {}", only(found, want), only(want, found));
}

/// Objects by uid, with their kinds.
struct Objects(BTreeMap<String, (&'static str, Value)>);

impl Objects {
    fn from_history(history: &[RecordedWrite]) -> Objects {
        let mut objects = BTreeMap::new();
        for change in history {
            let Some((_, kind)) = KINDS.iter().find(|(resource, _)| *resource == change.resource) else { continue };
            if change.deleted {
                objects.remove(&text(&change.object["metadata"]["uid"]));
            } else {
                objects.insert(text(&change.object["metadata"]["uid"]), (*kind, change.object.clone()));
            }
        }
        Objects(objects)
    }

    /// Kind and name of an object or, if the name is generated, kind and owner.
    fn label(&self, kind: &str, object: &Value) -> String {
        let controller = owners(object).find(|owner| owner["controller"] == true);
        match controller {
            Some(owner) if kind != "Job" => format!("{kind} of {}", self.owner(owner)),
            _ => format!("{kind} {}", text(&object["metadata"]["name"])),
        }
    }

    fn owner(&self, reference: &Value) -> String {
        match self.0.get(&text(&reference["uid"])) {
            Some((kind, object)) => self.label(kind, object),
            None => format!("a deleted {}", text(&reference["kind"])),
        }
    }

    fn line(&self, kind: &str, object: &Value) -> String {
        let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        let mut words = vec![self.label(kind, object)];
        words.push(format!("owners {:?}", owners(object).map(|owner| self.owner(owner)).collect::<Vec<_>>()));
        words.push(format!("finalizers {}", meta["finalizers"]));
        words.push(format!("deleted {}", meta["deletionTimestamp"].is_string()));
        match kind {
            "Job" => {
                for count in ["active", "ready", "terminating", "succeeded", "failed"] {
                    words.push(format!("{count} {}", status[count].as_i64().unwrap_or_default()));
                }
                words.push(format!("indexes {} {}", text(&status["completedIndexes"]), text(&status["failedIndexes"])));
                words.push(format!("uncounted {}", uncounted_pods(&status["uncountedTerminatedPods"])));
                words.push(format!("conditions {:?}", conditions(status)));
            }
            "CronJob" => {
                let active = status["active"].as_array().cloned().unwrap_or_default();
                words
                    .push(format!("active {:?}", active.iter().map(|job| text(&job["name"])).collect::<BTreeSet<_>>()));
                words.push(format!("last {}", status["lastScheduleTime"]));
            }
            "Pod" => {
                words.push(format!("index {} phase {}", meta["annotations"][INDEX], status["phase"]));
                words.push(format!("group {}", self.group_of(object)));
            }
            "PodGroup" => words.push(format!("{} {:?}", spec["schedulingPolicy"], conditions(status))),
            _ => words.push(format!("{}", spec["podGroupTemplates"][0]["schedulingPolicy"])),
        }
        words.join(", ")
    }

    /// The label of a pod's group.
    fn group_of(&self, pod: &Value) -> String {
        let name = text(&pod["spec"]["schedulingGroup"]["podGroupName"]);
        let is_it = |(kind, object): &&(&str, Value)| *kind == "PodGroup" && object["metadata"]["name"] == *name;
        match self.0.values().find(is_it) {
            Some((kind, group)) => self.label(kind, group),
            None if name.is_empty() => "none".to_owned(),
            None => "deleted".to_owned(),
        }
    }
}

/// Conditions that report a recovery: only runs with a temporary problem have them.
const RECOVERED_CONDITIONS: [(&str, &str); 2] = [("PodGroupScheduled", "True"), ("Degraded", "False")];

/// Type, status and reason of each condition, sorted.
fn conditions(status: &Value) -> BTreeSet<String> {
    let is_recovered = |one: &Value| {
        RECOVERED_CONDITIONS.iter().any(|(kind, status)| one["type"] == *kind && one["status"] == *status)
    };
    let conditions = status["conditions"].as_array().into_iter().flatten().filter(|one| !is_recovered(one));
    conditions.map(|one| format!("{}={} {}", text(&one["type"]), text(&one["status"]), text(&one["reason"]))).collect()
}

fn uncounted_pods(uncounted: &Value) -> String {
    let count = |list: &str| uncounted[list].as_array().map_or(0, Vec::len);
    format!("{} {}", count("succeeded"), count("failed"))
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn controller(object: &Value) -> Option<String> {
    owners(object).find(|owner| owner["controller"] == true).map(|owner| text(&owner["uid"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Checks every write, as an external observer would: no pod is created beyond a Job's parallelism, or for an index
/// that has an active pod or has succeeded; a Job has one Workload and one PodGroup at a time.
pub fn assert_never_too_many_pods(history: &[RecordedWrite], case: &str) {
    let mut observer = Observer::default();
    for change in history {
        if let Err(violation) = observer.observe(change) {
            panic!("{case}: at revision {} {violation}", change.revision);
        }
    }
}

/// The observer's state, by uid.
#[derive(Default)]
struct Observer {
    jobs: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    /// Pods that succeeded, by Job and index, including deleted ones.
    succeeded: BTreeMap<(String, String), BTreeSet<String>>,
    /// Workloads and PodGroups, by resource and controller.
    groups: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Observer {
    fn observe(&mut self, change: &RecordedWrite) -> Result<(), String> {
        let uid = text(&change.object["metadata"]["uid"]);
        match change.resource.as_str() {
            "batch/jobs" => {
                self.jobs.insert(uid, change.object.clone());
                Ok(())
            }
            "pods" => self.observe_pod(uid, change),
            "scheduling.k8s.io/workloads" | "scheduling.k8s.io/podgroups" => {
                let Some(owner) = controller(&change.object) else { return Ok(()) };
                let groups = self.groups.entry((change.resource.clone(), owner)).or_default();
                if change.deleted {
                    groups.remove(&uid);
                } else {
                    groups.insert(uid);
                }
                let is_one = groups.len() <= 1;
                is_one.then_some(()).ok_or_else(|| format!("one Job has several {}", change.resource))
            }
            _ => Ok(()),
        }
    }

    fn observe_pod(&mut self, uid: String, change: &RecordedWrite) -> Result<(), String> {
        let Some(job) = controller(&change.object) else { return Ok(()) };
        if change.deleted {
            self.pods.remove(&uid);
            return Ok(());
        }
        self.pods.insert(uid.clone(), change.object.clone());
        let index = text(&change.object["metadata"]["annotations"][INDEX]);
        let name = change.name();
        if change.created {
            self.check_is_wanted(&job, &index).map_err(|reason| format!("pod {name} is created, although {reason}"))?;
        }
        if change.object["status"]["phase"] == "Succeeded" && !index.is_empty() {
            let pods = self.succeeded.entry((job, index.clone())).or_default();
            pods.insert(uid);
            if pods.len() > 1 {
                return Err(format!("pod {name} is not the first to succeed with index {index}"));
            }
        }
        Ok(())
    }

    /// Whether the Job needs the pod that was created last.
    fn check_is_wanted(&self, job: &str, index: &str) -> Result<(), String> {
        let Some(wanted) = self.jobs.get(job) else { return Err("its Job does not exist".to_owned()) };
        let of_job = |pod: &&Value| controller(pod).as_deref() == Some(job) && is_active(pod);
        let active: Vec<&Value> = self.pods.values().filter(of_job).collect();
        let parallelism = wanted["spec"]["parallelism"].as_u64().unwrap_or(1) as usize;
        if active.len() > parallelism {
            return Err(format!("{} pods are active and the Job's parallelism is {parallelism}", active.len()));
        }
        if index.is_empty() {
            return Ok(());
        }
        let same = active.iter().filter(|pod| pod["metadata"]["annotations"][INDEX] == *index).count();
        if same > 1 || self.succeeded.contains_key(&(job.to_owned(), index.to_owned())) {
            return Err(format!("index {index} has a pod that is active or has succeeded"));
        }
        Ok(())
    }
}

/// Whether a pod is not finished and not being deleted.
fn is_active(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_string()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use api::Revision;
    use serde_json::json;

    use super::*;

    fn change(resource: &str, created: bool, object: Value) -> RecordedWrite {
        RecordedWrite { revision: Revision(1), resource: resource.to_owned(), created, deleted: false, object }
    }

    fn pod(uid: &str, index: &str, phase: &str, created: bool) -> RecordedWrite {
        let owner = json!([{"kind": "Job", "uid": "j", "controller": true}]);
        let meta = json!({"uid": uid, "name": uid, "ownerReferences": owner, "annotations": {INDEX: index}});
        change("pods", created, json!({"metadata": meta, "status": {"phase": phase}}))
    }

    fn first_violation(pods: &[RecordedWrite]) -> Option<String> {
        let mut observer = Observer::default();
        let job = change("batch/jobs", true, json!({"metadata": {"uid": "j"}, "spec": {"parallelism": 2}}));
        [&job].into_iter().chain(pods).find_map(|change| observer.observe(change).err())
    }

    #[test]
    fn the_observer_detects_extra_pods_duplicate_indexes_and_second_groups() {
        let (a, b, c) = (|| pod("a", "0", "", true), || pod("b", "1", "", true), || pod("c", "2", "", true));
        assert_eq!(first_violation(&[a(), b()]), None);
        assert!(first_violation(&[a(), b(), c()]).unwrap().contains("the Job's parallelism is 2"));
        assert_eq!(first_violation(&[a(), b(), pod("b", "1", "Failed", false), c()]), None);
        assert!(first_violation(&[a(), pod("b", "0", "", true)]).unwrap().contains("index 0 has a pod"));
        let ended = pod("a", "0", "Succeeded", false);
        assert!(first_violation(&[a(), ended.clone(), pod("b", "0", "", true)]).unwrap().contains("index 0 has a pod"));
        assert_eq!(first_violation(&[a(), ended.clone(), ended]), None);
        let group = |uid: &str| {
            let owner = json!([{"kind": "Job", "uid": "j", "controller": true}]);
            let object = json!({"metadata": {"uid": uid, "ownerReferences": owner}});
            change("scheduling.k8s.io/podgroups", true, object)
        };
        assert_eq!(first_violation(&[group("g"), group("g")]), None);
        assert!(
            first_violation(&[group("g"), group("h")])
                .unwrap()
                .contains("one Job has several scheduling.k8s.io/podgroups")
        );
    }

    #[test]
    fn end_states_ignore_generated_names_and_compare_counts() {
        let run = |uid: &str, name: &str, succeeded: i64| {
            let owner = json!([{"kind": "Job", "uid": uid, "controller": true}]);
            let job = json!({"metadata": {"uid": uid, "name": "job"}, "status": {"succeeded": succeeded}});
            let pod = json!({"metadata": {"uid": format!("{uid}p"), "name": name, "ownerReferences": owner}});
            end_state_lines(&[change("batch/jobs", true, job), change("pods", true, pod)])
        };
        assert_eq!(run("u", "job-abc", 1), run("v", "job-xyz", 1));
        assert_ne!(run("u", "job-abc", 1), run("u", "job-abc", 2));
    }
}
