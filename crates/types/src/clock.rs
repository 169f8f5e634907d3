//! The time, as an argument.

use std::time::Duration;

pub use jiff::Timestamp;

/// The wall time of objects. Control loops sleep on tokio's clock. Both have the same origin, so on the paused clock a
/// whole cluster is a deterministic simulation.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The maximum duration of a setting: ten years. A time that far in the future can still be represented.
pub const MAX_DURATION_SETTING: Duration = Duration::from_secs(87_600 * 3600);

/// Parses the duration of a setting, such as `90s` or `1h30m`: above zero, and at most [`MAX_DURATION_SETTING`].
pub fn parse_duration_setting(text: &str) -> Option<Duration> {
    let duration = Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok()?;
    (!duration.is_zero() && duration <= MAX_DURATION_SETTING).then_some(duration)
}

/// As [`parse_duration_setting`], with a minimum, such as for a deadline that every request would miss.
pub fn parse_duration_setting_at_least(least: Duration, text: &str) -> Option<Duration> {
    parse_duration_setting(text).filter(|duration| *duration >= least)
}

/// The format of Kubernetes' `metav1.Time`: whole seconds, UTC.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The format of Kubernetes' `metav1.MicroTime`: six digits, UTC.
pub fn rfc3339_micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_settings_are_above_zero_and_at_most_ten_years() {
        assert_eq!(parse_duration_setting("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_duration_setting("87600h"), Some(MAX_DURATION_SETTING));
        for text in ["", "5", "0s", "-5s", "five", "87601h", "100000000h", "99999999999999999999h"] {
            assert_eq!(parse_duration_setting(text), None, "{text}");
        }
        let at_least_a_second = |text| parse_duration_setting_at_least(Duration::from_secs(1), text);
        assert_eq!(["1ns", "999ms", "1s"].map(at_least_a_second), [None, None, Some(Duration::from_secs(1))]);
    }
}
