//! Drawn schedules, zones and times: most are right, many are odd, some are wrong.

use std::time::Duration;

use api::Timestamp;
use api::cron::time_zone;

use super::ScheduleQuery;
use crate::builder::CaseGenerator;

/// North and south, half and quarter hours, clocks turned at midnight, by half an hour and by two hours, days that were
/// left out. None whose rules differ between recent releases of the database of zones: each side has its own.
const ZONES: &[&str] = &[
    "UTC",
    "Etc/GMT+12",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Santiago",
    "America/Havana",
    "America/Nuuk",
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Antarctica/Troll",
];

/// One field: its numbers, and the names of some.
struct Bounds {
    from: i64,
    to: i64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { from: 0, to: 59, names: &[] },
    Bounds { from: 0, to: 23, names: &[] },
    Bounds { from: 1, to: 31, names: &[] },
    Bounds {
        from: 1,
        to: 12,
        names: &["jan", "FEB", "Mar", "apr", "may", "jun", "jul", "aug", "sEp", "oct", "nov", "dec"],
    },
    Bounds { from: 0, to: 6, names: &["sun", "Mon", "tue", "WED", "thu", "fri", "sat"] },
];

/// The next question.
pub(super) fn random_query(draw: &CaseGenerator) -> ScheduleQuery {
    let zone = *draw.choose(ZONES);
    ScheduleQuery { schedule: schedule(draw), zone, after: random_time(draw, zone) }
}

fn schedule(draw: &CaseGenerator) -> String {
    let text = match draw.below(20) {
        0 => (*draw.choose(&["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"]))
            .to_owned(),
        1 => format!("@every {}", random_duration(draw)),
        2 => garbage(draw),
        _ => fields(draw),
    };
    match draw.below(40) {
        0 => format!("TZ={} {text}", draw.choose(ZONES)),
        1 => format!("CRON_TZ={}  {text} ", draw.choose(ZONES)),
        2 => format!(" {text} "),
        3 => {
            let gap: &&str = draw.choose(&["  ", "\t", "\n", "\u{a0}", "_"]);
            text.replacen(' ', gap, 1)
        }
        _ => text,
    }
}

/// Five fields, seldom another number. Days are often both restricted, and a month often rules out a day.
fn fields(draw: &CaseGenerator) -> String {
    let mut fields: Vec<String> = FIELDS.iter().map(|bounds| field(draw, bounds)).collect();
    match draw.below(60) {
        0 => fields.truncate(4),
        1 => fields.push("*".to_owned()),
        // Leap days, and days that few months have.
        2 | 3 => {
            fields[2] = (*draw.choose(&["29", "30", "31", "29-31"])).to_owned();
            fields[3] = (*draw.choose(&["2", "feb", "4", "2,6", "*"])).to_owned();
        }
        // The hours at which clocks are turned.
        4..9 => fields[1] = (*draw.choose(&["0", "1", "2", "3", "0-3", "23,0", "*/2"])).to_owned(),
        _ => {}
    }
    fields.join(" ")
}

fn field(draw: &CaseGenerator, bounds: &Bounds) -> String {
    if draw.once_in(3) {
        return "*".to_owned();
    }
    let entries: Vec<String> = (0..*draw.choose(&[1, 1, 1, 2, 3])).map(|_| entry(draw, bounds)).collect();
    let list = entries.join(",");
    match draw.below(80) {
        0 => format!(",{list}"),
        1 => format!("{list},"),
        2 => list.replace(',', ",,"),
        // Of days and months alone: five years without a minute are a long way for the library.
        3 if bounds.from == 1 => ",".to_owned(),
        _ => list,
    }
}

fn entry(draw: &CaseGenerator, bounds: &Bounds) -> String {
    let one = || value(draw, bounds);
    let step = || (1 + draw.below(20)).to_string();
    match draw.below(32) {
        0..10 => one(),
        10..16 => {
            let (a, b) = (number_within(draw, bounds), number_within(draw, bounds));
            format!("{}-{}", a.min(b), a.max(b))
        }
        16 => format!("{}-{}", one(), one()),
        17..21 => format!("*/{}", step()),
        21..24 => format!("{}/{}", one(), step()),
        24..27 => format!("{}-{}/{}", bounds.from, number_within(draw, bounds), step()),
        27 => "?".to_owned(),
        28 => format!("?/{}", step()),
        29 => "*".to_owned(),
        _ => odd_entry(draw, bounds),
    }
}

/// Right or wrong, nobody would write it.
fn odd_entry(draw: &CaseGenerator, bounds: &Bounds) -> String {
    let one = number_within(draw, bounds);
    match draw.below(18) {
        0 => format!("{}", bounds.to + 1),
        1 => format!("{}", bounds.from - 1),
        2 => format!("{}-{one}", bounds.to),
        3 => format!("{one}/0"),
        4 => format!("*/{}", bounds.to + 1 + one),
        5 => format!("{one}-{one}-{one}"),
        6 => format!("*/2/{one}"),
        7 => format!("*-{one}"),
        8 => format!("+{one}"),
        9 => format!("0{one}"),
        10 => format!("{one}-"),
        11 => format!("-{one}"),
        12 => "99999999999999999999".to_owned(),
        13 => format!("*/{}", u64::MAX),
        14 => format!("{one}/"),
        15 => (*draw.choose(&["mon", "january", "L", "#", "1.5", "0x1", "1_0", "٣", "**", "*5"])).to_owned(),
        16 => format!("{one}/-{one}"),
        _ => format!("{one}-{}", bounds.to + 1),
    }
}

fn value(draw: &CaseGenerator, bounds: &Bounds) -> String {
    if !bounds.names.is_empty() && draw.once_in(2) {
        return (*draw.choose(bounds.names)).to_owned();
    }
    number_within(draw, bounds).to_string()
}

fn number_within(draw: &CaseGenerator, bounds: &Bounds) -> i64 {
    bounds.from + draw.below((bounds.to - bounds.from + 1) as usize) as i64
}

fn random_duration(draw: &CaseGenerator) -> String {
    let number = || draw.below(*draw.choose(&[10, 100, 10_000]));
    let unit = || *draw.choose(&["ns", "us", "µs", "ms", "s", "s", "m", "m", "h", "h", "d", ""]);
    match draw.below(12) {
        0 => format!("{}.{}{}", number(), number(), unit()),
        1 => format!("-{}{}", number(), unit()),
        2 => format!("+{}{}", number(), unit()),
        3 => (*draw.choose(&["", "0", "1", "h", ".", ".s", "1.s", ".5s", " 5m", "5m ", "5 m", "1e3s", "x"])).to_owned(),
        4 => (*draw.choose(&["2562047h", "2562048h", "9223372036854775807ns", "9223372036854775808ns"])).to_owned(),
        5..8 => format!("{}h{}m{}s", number(), number(), number()),
        _ => format!("{}{}", number(), unit()),
    }
}

fn garbage(draw: &CaseGenerator) -> String {
    const PIECES: &[&str] = &[
        "",
        " ",
        "*",
        "@",
        "@every",
        "@reboot",
        "@Daily",
        "@daily ",
        "TZ=",
        "CRON_TZ=",
        "TZ=UTC",
        "TZ=Mars/Base ",
        "TZ= ",
        "TZ=Local ",
        "TZ=../x ",
        "TZ=/etc ",
        "5",
        "-",
        "/",
        ",",
        "?",
        "mon",
        "* * * * *",
        "0 0 * * 7",
        "60 * * * *",
        "é",
    ];
    (0..=draw.below(3)).map(|_| *draw.choose(PIECES)).collect()
}

/// A time near a turn of the zone's clocks, at the end of February, or anywhere; seldom in years of other times.
fn random_time(draw: &CaseGenerator, zone: &str) -> Timestamp {
    let year = match draw.below(30) {
        0 => *draw.choose(&[1, 1000, 1800, 1895]),
        1 => *draw.choose(&[1916, 1945, 1970, 2000, 2100]),
        2 => *draw.choose(&[2400, 5000, 9990]),
        _ => 2020 + draw.below(18),
    };
    let anywhere = |days: usize, from: &str| -> Timestamp {
        let begin: Timestamp = format!("{year:04}-{from}T00:00:00Z").parse().expect("a day of any year");
        begin + Duration::from_secs(draw.below(days * 86_400) as u64)
    };
    let time = anywhere(365, "01-01");
    match draw.below(8) {
        0 => anywhere(3, "02-27"),
        1..4 => {
            let turn = time_zone(zone).and_then(|zone| zone.following(time).next().map(|turn| turn.timestamp()));
            // From a day and a half before to half a day after.
            let near = Duration::from_secs(draw.below(2 * 86_400) as u64);
            turn.map_or(time, |turn| turn - Duration::from_secs(36 * 3600) + near)
        }
        4 => time + Duration::from_millis(draw.below(1000) as u64),
        _ => time,
    }
}
