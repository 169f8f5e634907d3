//! Scheduling of JobSets, in both forms.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::{API_VERSION, JobSet};
use crate::gates::Gates;
use crate::scheduling::validation::{composite_pod_group, pod_group, workload};
use workloadbuilder::BuiltGroup;

fn job(name: &str, replicas: i32, scheduling: Value) -> Value {
    let pod = json!({"spec": {"containers": [{"name": "main"}]}});
    let mut spec = json!({"parallelism": 2, "template": pod});
    if !scheduling.is_null() {
        spec["scheduling"] = scheduling;
    }
    json!({"name": name, "replicas": replicas, "template": {"spec": spec}})
}

fn job_set(scheduling: Value, jobs: Vec<Value>) -> JobSet {
    let spec = json!({"scheduling": scheduling, "replicatedJobs": jobs});
    serde_json::from_value(json!({"metadata": {"name": "train", "namespace": "ml"}, "spec": spec})).expect("a JobSet")
}

fn owner() -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "JobSet".to_owned(),
        name: "train".to_owned(),
        uid: "0b5e".to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The one composite template of the JobSet's Workload.
fn template(job_set: &JobSet) -> Value {
    assert_eq!(job_set.validate(), vec![]);
    let workload = job_set.builder(owner()).build_workload().expect("a Workload");
    assert_eq!(workload::validate_create(&workload, &Gates::default()), vec![]);
    let mut templates = serde_json::to_value(&workload.spec.composite_pod_group_templates).expect("JSON");
    templates[0].take()
}

fn errors(job_set: &JobSet) -> Vec<String> {
    job_set.validate().iter().map(ToString::to_string).collect()
}

fn rack() -> Value {
    json!({"schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]}})
}

// Shows: S004-08
// Shows: S004-10
// Shows: S004-24
// Shows: S004-48
// Shows: S004-49
// Shows: S004-50
#[test]
fn both_forms_give_the_same_objects() {
    let basic = json!({"schedulingPolicy": {"basic": {}}});
    let nested = job_set(basic.clone(), vec![job("driver", 1, Value::Null), job("workers", 16, rack())]);
    let mut entry = rack();
    entry["targetReplicatedJob"] = json!("workers");
    let mut root = basic;
    root["replicatedJobPolicies"] = json!([entry]);
    let targeted = job_set(root, vec![job("driver", 1, Value::Null), job("workers", 16, Value::Null)]);
    assert_eq!(template(&nested), template(&targeted));
    assert_eq!(
        template(&nested),
        json!({
            "name": "train-cpgt-0",
            "schedulingPolicy": {"basic": {}},
            "podGroupTemplates": [
                {"name": "driver", "schedulingPolicy": {"basic": {}}},
                {
                    "name": "workers",
                    "schedulingPolicy": {"basic": {}},
                    "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
                },
            ],
        })
    );
}

// Shows: S004-26
#[test]
fn every_level_has_a_default_and_can_opt_out() {
    let gang = json!({"schedulingPolicy": {"gang": {}}});
    let basic = json!({"schedulingPolicy": {"basic": {}}});
    // The blocks of the JobSet and of the workers, and the expected policies.
    for (case, whole, workers, want_whole, want_workers) in [
        ("nothing", Value::Null, Value::Null, json!({"basic": {}}), json!({"basic": {}})),
        ("an empty block", json!({}), json!({}), json!({"gang": {"minGroupCount": 2}}), json!({"basic": {}})),
        ("opt-out", basic.clone(), basic, json!({"basic": {}}), json!({"basic": {}})),
        (
            "gangs without counts",
            gang.clone(),
            gang.clone(),
            json!({"gang": {"minGroupCount": 2}}),
            json!({"gang": {"minCount": 6}}),
        ),
        (
            "only some of the components",
            json!({"schedulingPolicy": {"gang": {"minGroupCount": 1}}}),
            gang,
            json!({"gang": {"minGroupCount": 1}}),
            json!({"gang": {"minCount": 6}}),
        ),
    ] {
        let found = template(&job_set(whole, vec![job("driver", 1, Value::Null), job("workers", 3, workers)]));
        assert_eq!(found["schedulingPolicy"], want_whole, "{case}");
        assert_eq!(found["podGroupTemplates"][1]["schedulingPolicy"], want_workers, "{case}");
    }
}

// Shows: S004-20
#[test]
fn both_forms_for_the_same_pods_are_refused() {
    let mut entry = rack();
    entry["targetReplicatedJob"] = json!("workers");
    let both = job_set(json!({"replicatedJobPolicies": [entry]}), vec![job("workers", 1, rack())]);
    assert_eq!(
        errors(&both),
        [
            "spec.replicatedJobs[0].template.spec.scheduling: Forbidden: spec.scheduling.replicatedJobPolicies[0] is about the \
          same pods: use only one of the two"
        ]
    );
    let entry = |name: &str| json!({"targetReplicatedJob": name});
    let twice = json!({"replicatedJobPolicies": [entry("workers"), entry("workers"), entry("missing")]});
    assert_eq!(
        errors(&job_set(twice, vec![job("workers", 1, Value::Null)])),
        [
            "spec.scheduling.replicatedJobPolicies[1].targetReplicatedJob: Duplicate value: \"workers\"",
            "spec.scheduling.replicatedJobPolicies[2].targetReplicatedJob: Not found: \"missing\"",
        ]
    );
    assert_eq!(
        errors(&job_set(Value::Null, vec![])),
        ["spec.replicatedJobs: Required value: a JobSet has at least one Job"]
    );
}

#[test]
fn errors_name_the_field_that_the_user_set() {
    let bad = json!({"schedulingPolicy": {"gang": {"minCount": 0}}, "disruptionMode": {"single": {}}});
    let whole = json!({"schedulingPolicy": {"gang": {"minGroupCount": 0}}, "disruptionMode": {"all": {}}});
    let nested = job_set(whole.clone(), vec![job("driver", 1, Value::Null), job("workers", 1, bad.clone())]);
    let mut entry = bad;
    entry["targetReplicatedJob"] = json!("workers");
    let mut root = whole;
    root["replicatedJobPolicies"] = json!([entry]);
    let targeted = job_set(root, vec![job("driver", 1, Value::Null), job("workers", 1, Value::Null)]);
    for (job_set, at) in [
        (nested, "spec.replicatedJobs[1].template.spec.scheduling"),
        (targeted, "spec.scheduling.replicatedJobPolicies[0]"),
    ] {
        assert_eq!(
            errors(&job_set),
            [
                "spec.scheduling.schedulingPolicy.gang.minGroupCount: Invalid value: 0: must be greater than or equal to 1"
                    .to_owned(),
                format!("{at}.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1"),
                format!(
                    "{at}.disruptionMode: Invalid value: \"\": the disruptionMode `single` is not supported below \
                     spec.scheduling.disruptionMode, which is `all`: remove it here, or set `single` there"
                ),
            ]
        );
    }
    let nine: Vec<Value> = (0..9).map(|i| job(&format!("w{i}"), 1, Value::Null)).collect();
    assert_eq!(
        errors(&job_set(Value::Null, nine)),
        ["spec.replicatedJobs: Too many: 9: a workload has at most 8 groups in one list: use one replicatedJob with \
          replicas for identical Jobs"]
    );
}

// All of these were accepted: the first two can never be satisfied, the types dropped the others.
#[test]
fn gangs_of_more_members_than_exist_are_refused() {
    let gang = |field: &str, count: i32| json!({"schedulingPolicy": {"gang": {field: count}}});
    let mut entry = gang("minCount", 7);
    entry["targetReplicatedJob"] = json!("workers");
    let mut whole = gang("minGroupCount", 3);
    whole["replicatedJobPolicies"] = json!([entry]);
    let jobs = vec![job("driver", 1, gang("minCount", 3)), job("workers", 3, Value::Null)];
    assert_eq!(
        errors(&job_set(whole, jobs)),
        [
            "spec.scheduling.schedulingPolicy.gang.minGroupCount: Invalid value: 3: must not be greater than the number of \
             replicatedJobs (2)",
            "spec.replicatedJobs[0].template.spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 3: must not be \
             greater than replicas times parallelism (2)",
            "spec.scheduling.replicatedJobPolicies[0].schedulingPolicy.gang.minCount: Invalid value: 7: must not be greater \
             than replicas times parallelism (6)",
        ]
    );
    let jobs = vec![job("driver", 1, gang("minCount", 2)), job("workers", 3, gang("minCount", 6))];
    assert_eq!(errors(&job_set(gang("minGroupCount", 2), jobs)), Vec::<String>::new());
}

#[test]
fn unknown_fields_of_blocks_and_jobs_are_found() {
    let unknown = |spec: Value| {
        let errors = super::unknown_fields(&json!({"spec": spec}));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let whole = json!({"schedulingPolicy": {"gang": {"minCount": 2}, "elastic": {}}, "replicatedJobPolicies": [
        {"targetReplicatedJob": "a", "schedulingPolicy": {"gang": {"minGroupCount": 2}}}]});
    let component = json!({"name": "a", "replicas": 2, "template": {"spec": {
        "paralelism": 3, "scheduling": {"schedulingPolicy": {"whole": {}}}, "template": {"spec": {"containers": []}}}}});
    assert_eq!(
        unknown(json!({"scheduling": whole, "network": {"own": true}, "replicatedJobs": [component]})),
        [
            "spec.scheduling.schedulingPolicy.elastic: Forbidden: unknown field",
            "spec.scheduling.schedulingPolicy.gang.minCount: Forbidden: unknown field: the gang of a JobSet counts \
             replicatedJobs, in minGroupCount",
            "spec.scheduling.replicatedJobPolicies[0].schedulingPolicy.gang.minGroupCount: Forbidden: unknown field",
            "spec.replicatedJobs[0].template.spec.paralelism: Forbidden: unknown field",
            "spec.replicatedJobs[0].template.spec.scheduling.schedulingPolicy.whole: Forbidden: unknown field",
        ]
    );
    let gang = json!({"schedulingPolicy": {"gang": {"minGroupCount": 1}}, "disruptionMode": {"all": {}}});
    let fine = job("a", 1, json!({"schedulingPolicy": {"gang": {"minCount": 2}}}));
    assert_eq!(unknown(json!({"scheduling": gang, "replicatedJobs": [fine]})), Vec::<String>::new());
    assert_eq!(unknown(Value::Null), Vec::<String>::new());
}

// Shows: S004-05
#[test]
fn job_set_becomes_a_composite_and_a_group_for_each_component() {
    let gang = json!({"schedulingPolicy": {"gang": {}}});
    let groups = job_set(json!({}), vec![job("driver", 1, Value::Null), job("workers", 3, gang)]);
    let groups = groups.builder(owner()).build_groups().expect("groups");
    let found: Vec<(&str, bool)> = groups.iter().map(|group| (group.template(), group.parent().is_some())).collect();
    assert_eq!(found, [("train-cpgt-0", false), ("driver", true), ("workers", true)]);
    for group in &groups {
        let problems = match group {
            BuiltGroup::Composite(group) => composite_pod_group::validate_create(group, true, &Gates::default()),
            BuiltGroup::Pods(group) => pod_group::validate_create(group, &Gates::default()),
        };
        assert_eq!(problems, vec![], "{}", group.name());
    }
}
