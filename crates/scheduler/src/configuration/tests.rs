//! Valid files and their profiles; invalid files and their errors.

#![allow(clippy::unwrap_used)]
use std::time::Duration;

use api::field::Path;
use scheduler_core::profile::{FilterPlugin, FitStrategy};
use scheduler_core::{BUILT_IN_FILTERS, Profile};
use serde_json::{Value, json};

use super::{API_VERSION, KIND, KubeSchedulerConfiguration};

fn read(body: Value) -> Result<KubeSchedulerConfiguration, Vec<String>> {
    let mut document = json!({"apiVersion": API_VERSION, "kind": KIND});
    for (field, value) in body.as_object().unwrap() {
        document[field] = value.clone();
    }
    let read = KubeSchedulerConfiguration::read(&document, &Path::default());
    read.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn profile(body: Value) -> Profile {
    read(json!({"profiles": [body]})).unwrap().profiles.remove(0)
}

/// Filters and weighted scores, as text.
fn plugins(body: Value) -> String {
    let profile = profile(json!({"plugins": body}));
    let filters: Vec<_> = profile.filters.iter().map(FilterPlugin::name).collect();
    let scores: Vec<_> = profile.scores.iter().map(|(score, weight)| format!("{} {weight}", score.name())).collect();
    format!("{} | {} | gates {}", filters.join(" "), scores.join(", "), profile.scheduling_gates)
}

#[test]
fn an_empty_file_is_the_default_profile() {
    let read = read(json!({})).unwrap();
    assert_eq!(read, KubeSchedulerConfiguration::default());
    assert_eq!(read.profiles, [Profile::default()]);
    assert_eq!((read.pod_initial_backoff, read.pod_max_backoff), (Duration::from_secs(1), Duration::from_secs(10)));
    assert!(read.leader_election.leader_elect);
}

#[test]
fn plugins_are_configured_at_one_point_or_at_all() {
    let all = BUILT_IN_FILTERS.iter().map(|filter| filter.id.name()).collect::<Vec<_>>().join(" ");
    let weights =
        "TaintToleration 3, NodeAffinity 2, NodeResourcesFit 1, NodeResourcesBalancedAllocation 1, ImageLocality 1";
    for (case, body, want) in [
        ("empty", json!({}), format!("{all} | {weights} | gates true")),
        (
            "one score disabled",
            json!({"score": {"disabled": [{"name": "ImageLocality"}, {"name": "PodTopologySpread"}]}}),
            format!("{all} | {} | gates true", weights.replace(", ImageLocality 1", "")),
        ),
        (
            "another weight",
            json!({"score": {"enabled": [{"name": "NodeAffinity", "weight": 7}]}}),
            format!("{all} | {} | gates true", weights.replace("NodeAffinity 2", "NodeAffinity 7")),
        ),
        (
            "only one score",
            json!({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}}),
            format!("{all} | NodeResourcesFit 1 | gates true"),
        ),
        (
            "one plugin only",
            json!({"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "TaintToleration"}]}}),
            "TaintToleration | TaintToleration 1 | gates false".to_owned(),
        ),
        (
            "enabled at one point, disabled at all",
            json!({"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}, "filter": {"enabled": [{"name": "NodeAffinity"}]}}),
            format!("{all} | {} | gates true", weights.replace("NodeAffinity 2, ", "")),
        ),
        (
            "gated pods are considered",
            json!({"preEnqueue": {"disabled": [{"name": "SchedulingGates"}]}}),
            format!("{all} | {weights} | gates false"),
        ),
        (
            "preemption disabled, which is not supported anyway",
            json!({"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}),
            format!("{all} | {weights} | gates true"),
        ),
    ] {
        assert_eq!(plugins(body), want, "{case}");
    }
}

#[test]
fn arguments_reach_filter_and_score() {
    let profile = profile(json!({"pluginConfig": [
        {"name": "NodeResourcesFit", "args": {
            "ignoredResources": ["example.com/a"],
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu"}],
                "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
            },
        }},
        {"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "memory", "weight": 1}]}},
    ]}));
    let fit = profile.args.fit;
    assert_eq!(fit.strategy, FitStrategy::RequestedToCapacityRatio(vec![(0, 0), (100, 10)]));
    assert_eq!(fit.resources, [("cpu".to_owned(), 3), ("example.com/gpu".to_owned(), 1)]);
    assert_eq!(fit.ignored_resources, ["example.com/a".to_owned()].into());
    assert_eq!(profile.args.balance.resources, ["memory"]);
}

#[test]
fn several_profiles_have_different_names() {
    let read = |names: Value| read(json!({"profiles": names}));
    let both = read(json!([{"schedulerName": "a"}, {"schedulerName": "b"}])).unwrap().profiles;
    assert_eq!(both.iter().map(|profile| profile.scheduler_name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let errors = read(json!([{"schedulerName": "a"}, {}, {"schedulerName": "a"}])).unwrap_err();
    assert_eq!(
        errors,
        [
            "profiles[1].schedulerName: Required value: required with several profiles",
            "profiles[2].schedulerName: Duplicate value: \"a\"",
        ]
    );
}

#[test]
fn unsupported_fields_and_values_are_rejected_with_their_path() {
    for (body, want) in [
        (json!({"kind": "Pod"}), "kind: Unsupported value: \"Pod\": supported values: \"KubeSchedulerConfiguration\""),
        (json!({"profils": []}), "profils: Forbidden: unknown field; known here are apiVersion, clientConnection"),
        (
            json!({"extenders": [{"urlPrefix": "http://x"}]}),
            "extenders: Forbidden: extenders are not supported; write a filter",
        ),
        (
            json!({"profiles": [{"plugins": {"score": {"enabled": [{"name": "PodTopologySpread", "weight": 2}]}}}]}),
            "profiles[0].plugins.score.enabled[0].name: Forbidden: plugin PodTopologySpread is not supported",
        ),
        (
            json!({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Mine"}]}}}]}),
            "profiles[0].plugins.filter.enabled[0].name: Unsupported value: \"Mine\"",
        ),
        (
            json!({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "ImageLocality"}]}}}]}),
            "profiles[0].plugins.filter.enabled[0].name: Invalid value: \"ImageLocality\": does not implement filter",
        ),
        (
            json!({"profiles": [{"plugins": {"preFilter": {"disabled": [{"name": "NodeAffinity"}]}}}]}),
            "profiles[0].plugins.preFilter: Forbidden: NodeAffinity is disabled here and enabled at filter, which needs it",
        ),
        (
            json!({"profiles": [{"pluginConfig": [{"name": "InterPodAffinity", "args": {}}]}]}),
            "profiles[0].pluginConfig[0].name: Forbidden: plugin InterPodAffinity is not supported",
        ),
        (
            json!({"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Best"}}}]}]}),
            "profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: \"Best\"",
        ),
        (json!({"podInitialBackoffSeconds": 20}), "podMaxBackoffSeconds: Invalid value: 10: must not be less"),
        (json!({"leaderElection": {"leaseDuration": "5s"}}), "leaderElection.renewDeadline: Invalid value: \"10s\""),
        (
            json!({"leaderElection": {"leaseDuration": "100000000h"}}),
            "leaderElection.leaseDuration: Invalid value: \"100000000h\": must be a duration from 1s to 87600h, such as 15s",
        ),
        (
            json!({"leaderElection": {"leaseDuration": "1ns"}}),
            "leaderElection.leaseDuration: Invalid value: \"1ns\": must be a duration from 1s to 87600h",
        ),
        (
            json!({"leaderElection": {"renewDeadline": "1ms"}}),
            "leaderElection.renewDeadline: Invalid value: \"1ms\": must be a duration from 100ms to 87600h",
        ),
        (
            json!({"leaderElection": {"retryPeriod": "1ns"}}),
            "leaderElection.retryPeriod: Invalid value: \"1ns\": must be a duration from 100ms to 87600h",
        ),
        (
            json!({"leaderElection": {"leaseDuration": "10900ms", "renewDeadline": "10500ms"}}),
            "leaderElection.renewDeadline: Invalid value: \"10.5s\": must be less than leaseDuration",
        ),
        (
            json!({"leaderElection": {"retryPeriod": "11s"}}),
            "leaderElection.renewDeadline: Invalid value: \"10s\": must be greater than retryPeriod",
        ),
        (
            json!({"podMaxBackoffSeconds": 2_000_000_000}),
            "podMaxBackoffSeconds: Invalid value: 2000000000: must be a whole number from 0 to 315360000",
        ),
        (
            json!({"percentageOfNodesToScore": 101}),
            "percentageOfNodesToScore: Invalid value: 101: must be a whole number",
        ),
    ] {
        let errors = read(body.clone()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].starts_with(want), "{body}: {errors:?}");
    }
}

// Kubernetes' suite for scores configures preScore together with score; such files were rejected.
#[test]
fn pre_score_is_configured_together_with_score() {
    let only = |name: &str, pre_score: Value| {
        let score = json!({"disabled": [{"name": "*"}], "enabled": [{"name": name, "weight": 1}]});
        read(json!({"profiles": [{"plugins": {"score": score, "preScore": pre_score}}]}))
    };
    let all_but = |name: &str| json!({"disabled": [{"name": "*"}], "enabled": [{"name": name}]});
    let profile = &only("NodeAffinity", all_but("NodeAffinity")).unwrap().profiles[0];
    assert!(matches!(&profile.scores[..], [(score, 1)] if score.name() == "NodeAffinity"), "{:?}", profile.scores);
    // This plugin has no preScore.
    assert_eq!(only("ImageLocality", json!({"disabled": [{"name": "*"}]})).unwrap().profiles[0].scores.len(), 1);
    let errors = only("TaintToleration", all_but("NodeAffinity")).unwrap_err();
    let want = "profiles[0].plugins.preScore: Forbidden: TaintToleration is disabled here and enabled at score, which needs it";
    assert_eq!(errors, [want]);
}

#[test]
fn fields_without_effect_are_listed() {
    let body = json!({
        "parallelism": 16, "percentageOfNodesToScore": 50, "enableProfiling": null,
        "clientConnection": {"qps": 50.0, "burst": 100, "kubeconfig": "k"},
        "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 10}],
    });
    let without_effect = [
        "percentageOfNodesToScore",
        "parallelism",
        "clientConnection.qps",
        "clientConnection.burst",
        "profiles[1].percentageOfNodesToScore",
    ];
    assert_eq!(read(body).unwrap().ignored_fields, without_effect);
    assert!(read(json!({"podMaxBackoffSeconds": 5})).unwrap().ignored_fields.is_empty());
}
