//! What the configuration file accepts and refuses.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use api::gates::AutoGang;
use controllers::job::{OnSuspend, PlainJobs};
use nodes::pod_lifecycle::RunTime;
use scheduler_core::{PriorityMismatch, UnsupportedTerms};

use super::*;

fn parse(text: &str) -> Result<Configuration, Vec<String>> {
    parse_with_warnings(text).map(|(configuration, _)| configuration)
}

fn parse_with_warnings(text: &str) -> Result<(Configuration, Vec<String>), Vec<String>> {
    let lines = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>();
    let read = Configuration::parse(Path::new("c.yaml"), text);
    read.map(|(configuration, warnings)| (configuration, lines(warnings))).map_err(lines)
}

const HEAD: &str = "apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\n";

fn plane(text: &str) -> controlplane::Config {
    parse(&format!("{HEAD}{text}")).unwrap().plane(Gates::default(), Cluster::default())
}

fn problems(text: &str) -> Vec<String> {
    parse(&format!("{HEAD}{text}")).unwrap_err()
}

#[test]
fn the_printed_file_has_every_setting_at_its_default() {
    let printed = default_file();
    let mut want = Configuration::default();
    // A count in the file is a choice of the user. Without one, a data directory that has nodes keeps them.
    want.nodes.count = Some(16);
    assert_eq!(parse(&printed), Ok(want));
    let documents = manifest::parse(Path::new("c"), &printed).unwrap();
    let is_absent = |setting: &Setting| documents[0].document[setting.section][setting.name].is_null();
    let absent: Vec<String> = settings().iter().filter(|setting| is_absent(setting)).map(Setting::path).collect();
    assert_eq!(absent, ["nodes.cluster"], "it excludes nodes.count");
    assert!(printed.lines().all(|line| line.len() < 120), "{printed}");
    assert!(printed.contains("elastic Indexed"), "a user of autoGang learns its cost");
}

#[test]
fn names_are_unique_and_every_setting_is_documented() {
    let settings = settings();
    let paths: BTreeSet<String> = settings.iter().map(Setting::path).collect();
    assert_eq!(paths.len(), settings.len());
    for setting in &settings {
        assert!(setting.doc[0].ends_with('.'), "{}: the first line is a sentence", setting.path());
    }
}

/// Settings were renamed in 0.1; a file with the old name must not be taken for one with a typing error.
#[test]
fn a_former_name_is_an_error_with_the_new_one() {
    let renamed = settings().into_iter().filter_map(|setting| Some((setting.former_name?, setting)));
    let renamed: Vec<(&str, Setting)> = renamed.collect();
    for (former, setting) in &renamed {
        let section = setting.section;
        let want = format!("c.yaml:4: {section}.{former}: was renamed to {}", setting.path());
        assert_eq!(problems(&format!("{section}:\n  {former}: 1\n")), [want]);
    }
    let names: Vec<String> = renamed.iter().map(|(former, new)| format!("{former} {}", new.path())).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    names server.certSANs
    connectionsMax server.maxConnections
    requestsInFlightMax server.maxRequestsInFlight
    mutatingRequestsInFlightMax server.maxMutatingRequestsInFlight
    watchesMax server.maxWatches
    historyMebibytes server.maxHistoryMebibytes
    historyAge server.maxHistoryAge
    eventTtl server.eventTTL
    jobWorkers controllers.concurrentJobSyncs
    jobSyncBatch controllers.jobSyncBatchPeriod
    podBackoffMax controllers.maxPodBackoff
    bindsInFlight scheduler.maxBindsInFlight
    holdAfter scheduler.reserveAfter
    holdFor scheduler.maxReservation
    otherPriority scheduler.priorityMismatch
    ");
}

#[test]
fn a_file_changes_the_settings_it_has() {
    let text = format!(
        "{HEAD}server:\n  certSANs: [gpu.example]\n  featureGates: {{CompositePodGroup: false}}\nscheduler:\n  refusalPause: 1m\n"
    );
    let read = parse(&text).unwrap();
    assert_eq!(read.server.cert_sans, ["gpu.example"]);
    assert_eq!(read.server.feature_gates, [("CompositePodGroup".to_owned(), "false".to_owned())]);
    assert_eq!(read.scheduler.refusal_pause, Duration::from_secs(60));
    assert_eq!(read.server.listen, Configuration::default().server.listen);
    let text = "scheduler:\n  reserveAfter: never\n  releaseAfter: 20s\n  overcommitAfter: never\n  \
                priorityMismatch: refused\n  unsupportedTerms: ignore\n  reservationShare: 0.25\n";
    let SchedulerSettings {
        reserve_after,
        release_after,
        overcommit_after,
        priority_mismatch,
        unsupported_terms,
        reservation_share,
        ..
    } = parse(&format!("{HEAD}{text}")).unwrap().scheduler;
    assert_eq!((reserve_after, release_after, overcommit_after), (None, Some(Duration::from_secs(20)), None));
    assert_eq!((priority_mismatch, unsupported_terms), (PriorityMismatch::Refused, UnsupportedTerms::Ignore));
    assert_eq!(reservation_share, 0.25);
    assert_eq!(parse(&format!("{HEAD}server:\n")), Ok(Configuration::default()), "an empty section changes nothing");
}

#[test]
fn limits_of_the_server_reach_its_edge_and_store() {
    let text = "server: {maxConnections: 1, maxRequestsInFlight: 2, maxMutatingRequestsInFlight: 3, maxWatches: 4, \
                maxHistoryMebibytes: 5, maxHistoryAge: 6s}\n";
    let server = parse(&format!("{HEAD}{text}")).unwrap().server;
    let (edge, history) = server.limits();
    assert_eq!((edge.max_connections, edge.max_reads, edge.max_writes, edge.max_watches), (1, 2, 3, 4));
    assert_eq!((history.max_history_bytes, history.max_history_age.as_secs()), (5 << 20, 6));
}

#[test]
fn run_time_and_exit_code_of_simulated_pods_are_settings() {
    let of = |text: &str| {
        let defaults = plane(text).nodes.pod_defaults;
        (defaults.run_time, defaults.exit_code)
    };
    assert_eq!(of(""), (RunTime::For(Duration::from_secs(1)), 0));
    assert_eq!(of("nodes: {runSeconds: 2.5, exitCode: 3}\n"), (RunTime::For(Duration::from_millis(2500)), 3));
    assert_eq!(of("nodes: {runSeconds: forever}\n"), (RunTime::Forever, 0));
    for bad in ["soon", "-1", "'5'", "5s", "[1]", "true"] {
        let want = "c.yaml:4: nodes.runSeconds: must be a number of seconds, or forever";
        assert_eq!(problems(&format!("nodes:\n  runSeconds: {bad}\n")), [want], "{bad}");
    }
    for bad in ["256", "-1", "one", "1.5"] {
        let want = "c.yaml:4: nodes.exitCode: must be a number from 0 to 255";
        assert_eq!(problems(&format!("nodes:\n  exitCode: {bad}\n")), [want], "{bad}");
    }
}

#[test]
fn a_share_outside_of_its_range_is_refused() {
    for bad in ["1.01", "-0.1", "tenth", "[0.1]"] {
        let want = "c.yaml:4: scheduler.reservationShare: must be a share from 0 to 1";
        assert_eq!(problems(&format!("scheduler:\n  reservationShare: {bad}\n")), [want], "{bad}");
    }
    for good in ["0", "1", "0.05"] {
        let read = parse(&format!("{HEAD}scheduler:\n  reservationShare: {good}\n")).unwrap();
        assert_eq!(read.scheduler.reservation_share.to_string(), good);
    }
}

#[test]
fn durations_outside_of_their_range_are_refused_for_every_setting() {
    let of_duration = |setting: &Setting| setting.values.contains(" to 87600h");
    let durations: Vec<Setting> = settings().into_iter().filter(of_duration).collect();
    assert!(durations.len() >= 12, "{durations:?}");
    for setting in durations {
        let (section, name) = (setting.section, setting.name);
        let least = match name {
            "jobSyncBatchPeriod" => "1ms",
            "drainTimeout" | "podBackoff" | "maxPodBackoff" | "podGCPeriod" | "podGCQuarantine" | "refusalPause" => {
                "100ms"
            }
            _ => "1s",
        };
        let may_be_never = ["reserveAfter", "releaseAfter", "overcommitAfter"].contains(&name);
        let or_never = if may_be_never { ", or never" } else { "" };
        let range = format!("must be a duration from {least} to 87600h{or_never}, such as 90s or 5m");
        for text in ["100000000h", "87601h", "99999999999999999999h", "-1s", "0s", "soon", "1ns", "999us"] {
            let want = format!("c.yaml:4: {section}.{name}: Invalid value: \"{text}\": {range}");
            assert_eq!(problems(&format!("{section}:\n  {name}: {text}\n")), [want], "{text}");
        }
        for text in [least, "87600h"] {
            let read = parse(&format!("{HEAD}{section}:\n  {name}: {text}\n"));
            assert!(read.is_ok() || name.to_lowercase().ends_with("podbackoff"), "{name}: {text}: {read:?}");
        }
    }
}

#[test]
fn every_problem_has_its_line() {
    let text = format!(
        "{HEAD}server:\n  lisen: x\n  certSANs: 7\ncontrollers:\n  autoGong: indexed\n  concurrentJobSyncs: 0\nnodes: 3\nmore: 1\n"
    );
    let problems = parse(&text).unwrap_err();
    for (start, part) in [
        ("c.yaml:4: server.lisen: unknown field", "listen"),
        ("c.yaml:5: server.certSANs: must be a list of strings", ""),
        (
            "c.yaml:7: controllers.autoGong: unknown field",
            "autoGang, childOwners, concurrentJobSyncs, countDisruptions, jobSyncBatchPeriod",
        ),
        ("c.yaml:8: controllers.concurrentJobSyncs: must be a number from 1 to 1000", ""),
        ("c.yaml:9: nodes: must be a mapping", ""),
        ("c.yaml:10: more: unknown field", "scheduler"),
    ] {
        let found = problems.iter().any(|problem| problem.starts_with(start) && problem.contains(part));
        assert!(found, "no {start:?} in {problems:#?}");
    }
    assert_eq!(problems.len(), 6, "{problems:#?}");
}

#[test]
fn the_file_of_kube_scheduler_is_taken_whole_and_in_a_section() {
    let body = "profiles:\n- schedulerName: packing\n  plugins: {score: {disabled: [{name: ImageLocality}]}}\n";
    let whole = format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{body}");
    let section: String = whole.lines().map(|line| format!("    {line}\n")).collect();
    let in_section = parse(&format!("{HEAD}scheduler:\n  configuration:\n{section}")).unwrap();
    assert_eq!(parse(&whole).unwrap(), in_section);
    let plane = in_section.plane(Gates::default(), Cluster::default());
    assert_eq!(plane.scheduler.core.profiles[0].scheduler_name, "packing");
    let problems = parse(&whole.replace("ImageLocality", "Mine").replace("packing", "[]")).unwrap_err();
    let want = ["c.yaml:4: profiles[0].schedulerName: Invalid value: []: must be a string"];
    assert!(problems.len() == 2 && problems[0] == want[0], "{problems:#?}");
    let problems = parse(&format!("{HEAD}scheduler:\n  configuration:\n{section}    extenders: [{{}}]\n")).unwrap_err();
    assert!(problems[0].starts_with("c.yaml:10: scheduler.configuration.extenders: Forbidden: "), "{problems:#?}");
}

#[test]
fn fields_of_kube_scheduler_without_effect_are_warnings_with_their_line() {
    let body = "parallelism: 16\nprofiles:\n- schedulerName: a\n  percentageOfNodesToScore: 50\n";
    let whole = format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{body}");
    let (_, warnings) = parse_with_warnings(&whole).unwrap();
    let guide = "ignored (see docs/guides/scheduler.md)";
    let want =
        [format!("c.yaml:3: parallelism: {guide}"), format!("c.yaml:6: profiles[0].percentageOfNodesToScore: {guide}")];
    assert_eq!(warnings, want);
    let section: String = whole.lines().map(|line| format!("    {line}\n")).collect();
    let (_, warnings) = parse_with_warnings(&format!("{HEAD}scheduler:\n  configuration:\n{section}")).unwrap();
    assert_eq!(warnings[0], format!("c.yaml:7: scheduler.configuration.parallelism: {guide}"));
}

#[test]
fn a_bad_address_to_listen_on_is_reported_with_its_line() {
    let like = "must be like 127.0.0.1:6443";
    for (text, problem) in [
        ("nonsense", format!("the port is missing; {like}")),
        ("127.0.0.1:https", format!("the port must be a number from 0 to 65535; {like}")),
        ("127.0.0.1:70000", format!("the port must be a number from 0 to 65535; {like}")),
        ("https://127.0.0.1:6443", format!("the host is no name and no address; {like}")),
    ] {
        let want = format!("c.yaml:4: server.listen: Invalid value: \"{text}\": {problem}");
        assert_eq!(problems(&format!("server:\n  listen: {text:?}\n")), [want]);
    }
    assert_eq!(problems("server:\n  listen: 6443\n"), ["c.yaml:4: server.listen: must be a string"]);
    for text in ["127.0.0.1:0", "[::1]:6443", ":6443", "gpu-1.example:6443", "0.0.0.0:6443"] {
        assert_eq!(parse(&format!("{HEAD}server:\n  listen: {text:?}\n")).unwrap().server.listen, text);
    }
}

// Shows: S000-28
#[test]
fn gangs_by_themselves_and_the_check_of_binds_are_settings() {
    let text = "server:\n  capacityCheck: false\ncontrollers:\n  autoGang: indexed\n";
    let read = parse(&format!("{HEAD}{text}")).unwrap();
    assert_eq!((read.controllers.auto_gang, read.server.capacity_check), (AutoGang::Indexed, false));
    let text = "server:\n  capacityCheck: 1\ncontrollers:\n  autoGang: always\n";
    let problems = parse(&format!("{HEAD}{text}")).unwrap_err();
    let want = [
        "c.yaml:4: server.capacityCheck: must be true or false",
        "c.yaml:6: controllers.autoGang: must be explicit or indexed",
    ];
    assert_eq!(problems, want);
}

#[test]
fn who_gets_scheduling_objects_is_a_setting() {
    let text = "controllers:\n  plainJobs: none\n  onSuspend: delete\n  childOwners: [JobSet]\n";
    let read = parse(&format!("{HEAD}{text}")).unwrap();
    let job = read.plane(Gates::default(), Cluster::default()).job;
    assert_eq!((job.plain_jobs, job.on_suspend), (PlainJobs::None, OnSuspend::Delete));
    assert_eq!(job.child_owners, ChildOwners(vec!["JobSet".to_owned()]));
    let text = "controllers:\n  plainJobs: gang\n  onSuspend: always\n  childOwners: JobSet\n";
    let problems = parse(&format!("{HEAD}{text}")).unwrap_err();
    let want = [
        "c.yaml:4: controllers.plainJobs: must be basic or none",
        "c.yaml:5: controllers.onSuspend: must be keep or delete",
        "c.yaml:6: controllers.childOwners: must be a list of strings",
    ];
    assert_eq!(problems, want);
}

#[test]
fn whether_disruptions_count_as_failures_is_a_setting() {
    let read =
        |text: &str| parse(&format!("{HEAD}{text}")).map(|read| read.plane(Gates::default(), Cluster::default()));
    assert!(!read("").unwrap().job.count_disruptions);
    assert!(read("controllers:\n  countDisruptions: true\n").unwrap().job.count_disruptions);
    let problems = read("controllers:\n  countDisruptions: maybe\n").err().unwrap();
    assert_eq!(problems, ["c.yaml:4: controllers.countDisruptions: must be true or false"]);
}

#[test]
fn limits_of_one_sync_and_the_pod_collector_are_settings() {
    let text = "controllers:\n  maxPodsPerSync: 10\n  maxUncountedPods: 20\n  terminatedPodGCThreshold: 0\n  \
                podGCPeriod: 500ms\n  podGCQuarantine: 1s\n";
    let plane = parse(&format!("{HEAD}{text}")).unwrap().plane(Gates::default(), Cluster::default());
    assert_eq!((plane.job.max_pods_per_sync, plane.job.max_uncounted_pods), (10, 20));
    let collector = plane.pod_gc;
    assert_eq!(
        (collector.terminated_pod_threshold, collector.gc_period.as_millis(), collector.quarantine.as_secs()),
        (0, 500, 1)
    );
    let text = "controllers:\n  maxPodsPerSync: 0\n  maxUncountedPods: 10001\n  terminatedPodGCThreshold: -1\n";
    let problems = parse(&format!("{HEAD}{text}")).unwrap_err();
    let want = [
        "c.yaml:4: controllers.maxPodsPerSync: must be a number from 1 to 10000",
        "c.yaml:5: controllers.maxUncountedPods: must be a number from 1 to 10000",
        "c.yaml:6: controllers.terminatedPodGCThreshold: must be a number from 0 to 1000000000",
    ];
    assert_eq!(problems, want);
}

#[test]
fn another_kind_is_refused() {
    let problems = parse("apiVersion: phalanx.dev/v1alpha1\nkind: Cluster\n").unwrap_err();
    assert_eq!(problems, ["c.yaml:2: kind: must be Configuration"]);
    assert!(parse("").is_err() && parse("[]").is_err() && parse(&format!("{HEAD}---\n{HEAD}")).is_err());
}
