//! Whether enough indexes have succeeded for `spec.successPolicy` (KEP-3998).

use k8s_openapi::api::batch::v1::{SuccessPolicy, SuccessPolicyRule};

use crate::job::status::indexes::Indexes;

/// The position of the first rule that is met by the indexes that succeeded.
pub fn first_met(policy: &SuccessPolicy, completed: &Indexes, completions: i32) -> Option<usize> {
    policy.rules.iter().position(|rule| is_met(rule, completed, completions))
}

fn is_met(rule: &SuccessPolicyRule, completed: &Indexes, completions: i32) -> bool {
    match (&rule.succeeded_indexes, rule.succeeded_count) {
        (Some(listed), count) => {
            let listed = Indexes::parse(listed, completions);
            let succeeded = listed.intersection_len(completed);
            succeeded >= count.unwrap_or(listed.len())
        }
        (None, Some(count)) => completed.len() >= count,
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    // Shows: U-TestSyncJobWithJobSuccessPolicy
    #[test]
    fn the_first_rule_that_is_met_is_named() {
        for (case, rules, completed, want) in [
            ("no rules", json!([]), "0-9", None),
            ("all of those listed", json!([{ "succeededIndexes": "0,2-4" }]), "0,2-4", Some(0)),
            ("one is missing", json!([{ "succeededIndexes": "0,2-4" }]), "0,2,3", None),
            ("enough of those listed", json!([{ "succeededIndexes": "0-5", "succeededCount": 2 }]), "1,4,8", Some(0)),
            ("enough, but of others", json!([{ "succeededIndexes": "0-5", "succeededCount": 2 }]), "1,7-9", None),
            ("enough of any", json!([{ "succeededCount": 3 }]), "1,4,8", Some(0)),
            ("too few of any", json!([{ "succeededCount": 3 }]), "1,4", None),
            ("an empty rule", json!([{}]), "0-9", None),
            ("the second", json!([{ "succeededIndexes": "0" }, { "succeededCount": 1 }]), "3", Some(1)),
            ("the first of two", json!([{ "succeededIndexes": "3" }, { "succeededCount": 1 }]), "3", Some(0)),
        ] {
            let policy: SuccessPolicy = serde_json::from_value(json!({ "rules": rules })).unwrap();
            assert_eq!(first_met(&policy, &Indexes::parse(completed, 10), 10), want, "{case}");
        }
    }
}
