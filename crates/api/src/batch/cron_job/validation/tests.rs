//! Every rule for CronJobs with its message.

use k8s_openapi::api::batch::v1::CronJob;
use serde_json::{Value, json};

use super::{validate_create, validate_status_update, validate_update};
use crate::field::ErrorList;
use crate::gates::{Gate, Gates};

fn spec() -> Value {
    json!({
        "schedule": "*/5 * * * *", "concurrencyPolicy": "Allow",
        "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox",
            "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}],
            "dnsPolicy": "Default", "terminationGracePeriodSeconds": 1,
        }}}},
    })
}

/// A valid CronJob with changes, by JSON pointer below the spec.
fn cron_job(changes: &[(&str, Value)]) -> CronJob {
    let mut spec = spec();
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        spec.pointer_mut(parent).expect("a parent")[field] = value.clone();
    }
    let metadata = json!({"name": "nightly", "namespace": "default", "resourceVersion": "1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a CronJob")
}

fn render(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn refused(changes: &[(&str, Value)], wants: &[&str]) {
    assert_eq!(render(&validate_create(&cron_job(changes), &Gates::default())), wants);
}

#[test]
fn schedules_have_cron_format_or_macros() {
    for schedule in ["0 0 * * *", "@every 1h", "@daily", "*/15 1,2 ? JAN-mar MON", "5/15 * * * *"] {
        refused(&[("/schedule", json!(schedule))], &[]);
    }
    refused(&[("/schedule", json!(""))], &["spec.schedule: Required value"]);
    refused(
        &[("/schedule", json!("")), ("/successfulJobsHistoryLimit", json!(-1))],
        &[
            "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            "spec.schedule: Required value",
        ],
    );
    refused(
        &[("/schedule", json!("* * * *"))],
        &["spec.schedule: Invalid value: \"* * * *\": expected exactly 5 fields, found 4: [* * * *]"],
    );
    refused(
        &[("/schedule", json!("* * * * 7"))],
        &["spec.schedule: Invalid value: \"* * * * 7\": end of range (7) above maximum (6): 7"],
    );
}

#[test]
fn zone_in_the_schedule_is_refused_unless_it_was_set_before() {
    let with = |schedule: &str, zone: Value| cron_job(&[("/schedule", json!(schedule)), ("/timeZone", zone)]);
    let instead = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
    for schedule in ["TZ=UTC 0 0 * * *", "CRON_TZ=UTC 0 0 * * *"] {
        let want = format!("spec.schedule: Invalid value: \"{schedule}\": {instead}");
        refused(&[("/schedule", json!(schedule))], &[&want]);
        let old = with(schedule, Value::Null);
        let update = |new: &CronJob| render(&validate_update(new, &old, &Gates::default()));
        assert_eq!(update(&with("TZ=UTC 1 0 * * *", Value::Null)), Vec::<String>::new());
        let both = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        assert_eq!(
            update(&with(schedule, json!("UTC"))),
            [format!("spec.schedule: Invalid value: \"{schedule}\": {both}")]
        );
    }
}

#[test]
fn time_zone_is_in_the_database() {
    for zone in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"] {
        refused(&[("/timeZone", json!(zone))], &[]);
    }
    let explicit = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
    for (zone, detail) in [
        ("", "timeZone must be nil or non-empty string"),
        ("Local", explicit),
        ("local", explicit),
        ("../etc/passwd", "unknown time zone ../etc/passwd"),
        ("-Europe/Berlin", "unknown time zone -Europe/Berlin"),
        ("/Europe", "unknown time zone /Europe"),
        ("Europe/Sildavia", "unknown time zone Europe/Sildavia"),
        ("europe/berlin", "unknown time zone europe/berlin"),
        ("Europe/Llanfairpwllgwyngyll", "unknown time zone Europe/Llanfairpwllgwyngyll"),
    ] {
        refused(&[("/timeZone", json!(zone))], &[&format!("spec.timeZone: Invalid value: \"{zone}\": {detail}")]);
    }
    // A zone that was removed from the database does not block other changes.
    let old = cron_job(&[("/timeZone", json!("Europe/Sildavia"))]);
    assert_eq!(validate_update(&old, &old, &Gates::default()), vec![]);
}

#[test]
fn counts_and_policy_are_validated() {
    refused(
        &[
            ("/startingDeadlineSeconds", json!(-1)),
            ("/concurrencyPolicy", json!("Sometimes")),
            ("/successfulJobsHistoryLimit", json!(-2)),
            ("/failedJobsHistoryLimit", json!(-3)),
        ],
        &[
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.concurrencyPolicy: Unsupported value: \"Sometimes\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            "spec.successfulJobsHistoryLimit: Invalid value: -2: must be greater than or equal to 0",
            "spec.failedJobsHistoryLimit: Invalid value: -3: must be greater than or equal to 0",
        ],
    );
    refused(&[("/concurrencyPolicy", json!(""))], &["spec.concurrencyPolicy: Required value"]);
}

#[test]
fn name_has_at_most_52_characters() {
    let mut job = cron_job(&[]);
    for (length, wants) in [(52, 0), (53, 1)] {
        job.metadata.name = Some("a".repeat(length));
        let errors = render(&validate_create(&job, &Gates::default()));
        assert_eq!(errors.len(), wants, "{errors:?}");
        assert!(errors.iter().all(|error| error.ends_with("must be no more than 52 characters")), "{errors:?}");
    }
    assert_eq!(validate_update(&job, &job, &Gates::default()), vec![], "checked only at creation");
}

#[test]
fn template_is_validated_as_a_job() {
    let job = "/jobTemplate/spec";
    refused(
        &[
            (&format!("{job}/parallelism"), json!(-1)),
            (&format!("{job}/selector"), json!({"matchLabels": {"a": "b"}})),
            (&format!("{job}/manualSelector"), json!(true)),
            (&format!("{job}/template/spec/restartPolicy"), json!("Always")),
        ],
        &[
            "spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
            "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
            "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
        ],
    );
}

// Shows: S004-16
#[test]
fn scheduling_has_the_same_rules_and_messages_as_in_a_job() {
    let scheduling = |value: Value| cron_job(&[("/jobTemplate/spec/scheduling", value)]);
    let gang = |count: Value| json!({"schedulingPolicy": {"gang": count}});
    let path = "spec.jobTemplate.spec.scheduling";
    for (value, want) in [
        (gang(json!({})), None),
        (
            gang(json!({"minCount": 2})),
            Some("schedulingPolicy.gang.minCount: Invalid value: 2: must not be greater than parallelism (1)"),
        ),
        (
            json!({"schedulingPolicy": {}}),
            Some("schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`"),
        ),
    ] {
        let errors = render(&validate_create(&scheduling(value), &Gates::default()));
        let wants: Vec<String> = want.into_iter().map(|want| format!("{path}.{want}")).collect();
        assert_eq!(errors, wants);
    }
    let update =
        |new: Value, old: Value| render(&validate_update(&scheduling(new), &scheduling(old), &Gates::default()));
    assert_eq!(update(gang(json!({"minCount": 1})), gang(json!({}))), Vec::<String>::new());
    assert_eq!(update(json!({"schedulingPolicy": {"basic": {}}}), gang(json!({}))), Vec::<String>::new());
    assert_eq!(
        update(json!({"disruptionMode": {"single": {}}}), json!({})),
        [format!("{path}.disruptionMode: Invalid value: null: field is immutable")]
    );
    assert_eq!(
        update(json!({}), Value::Null),
        [format!("{path}: Invalid value: null: field cannot be set once created")]
    );
    let off = Gates::default().with(Gate::WorkloadWithJob, false);
    assert_eq!(render(&validate_create(&scheduling(json!({})), &off)), [format!("{path}: Forbidden")]);
}

#[test]
fn status_is_not_validated() {
    let old = cron_job(&[("/schedule", json!("not a schedule"))]);
    let mut new = old.clone();
    new.status = Some(serde_json::from_value(json!({"lastScheduleTime": "2030-01-01T00:00:00Z"})).expect("a status"));
    assert_eq!(validate_status_update(&new, &old, &Gates::default()), vec![]);
}
