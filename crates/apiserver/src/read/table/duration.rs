//! Durations as kubectl prints them: at most two units, and one where the second would not matter.

use jiff::SignedDuration;

/// `5s`, `3m12s`, `45m`, `7h5m`, `30h`, `2d4h`, `90d`, `2y10d`. A clock that is a second behind is tolerated.
pub fn human(duration: SignedDuration) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let seconds = duration.as_secs();
    let two = |large: i64, name: &str, small: i64, small_name: &str| {
        let (whole, rest) = (seconds / large, seconds % large / small);
        if rest == 0 { format!("{whole}{name}") } else { format!("{whole}{name}{rest}{small_name}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(MINUTE, "m", 1, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(HOUR, "h", MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(DAY, "d", HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_as_many_units_as_matter() {
        const DAY: i64 = 24 * 3600;
        for (seconds, want) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (7 * 3600 + 305, "7h5m"),
            (8 * 3600 + 59, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY + 4 * 3600, "2d4h"),
            (8 * DAY, "8d"),
            (729 * DAY, "729d"),
            (740 * DAY, "2y10d"),
            (8 * 365 * DAY, "8y"),
        ] {
            assert_eq!(human(SignedDuration::from_secs(seconds)), want, "{seconds}");
        }
    }
}
