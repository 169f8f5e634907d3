//! Generated schedules, zones and times: most are valid, many are unusual, some are invalid.

use std::time::Duration;

use api::Timestamp;
use api::cron::time_zone;

use super::ScheduleQuery;
use crate::builder::CaseGenerator;

/// North and south, half and quarter hours, clock changes at midnight, by half an hour and by two hours, skipped days.
/// No zone whose rules differ between recent releases of the time zone database: each side has its own.
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

/// One field: its range, and the names of some values.
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

/// A random query.
pub(super) fn random_query(generator: &CaseGenerator) -> ScheduleQuery {
    let zone = *generator.choose(ZONES);
    ScheduleQuery { schedule: schedule(generator), zone, after: random_time(generator, zone) }
}

fn schedule(generator: &CaseGenerator) -> String {
    let text = match generator.below(20) {
        0 => (*generator.choose(&["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"]))
            .to_owned(),
        1 => format!("@every {}", random_duration(generator)),
        2 => garbage(generator),
        _ => fields(generator),
    };
    match generator.below(40) {
        0 => format!("TZ={} {text}", generator.choose(ZONES)),
        1 => format!("CRON_TZ={}  {text} ", generator.choose(ZONES)),
        2 => format!(" {text} "),
        3 => {
            let gap: &&str = generator.choose(&["  ", "\t", "\n", "\u{a0}", "_"]);
            text.replacen(' ', gap, 1)
        }
        _ => text,
    }
}

/// Five fields, rarely another number. Both days are often restricted, and a month often excludes a day.
fn fields(generator: &CaseGenerator) -> String {
    let mut fields: Vec<String> = FIELDS.iter().map(|bounds| field(generator, bounds)).collect();
    match generator.below(60) {
        0 => fields.truncate(4),
        1 => fields.push("*".to_owned()),
        // Leap days, and days that few months have.
        2 | 3 => {
            fields[2] = (*generator.choose(&["29", "30", "31", "29-31"])).to_owned();
            fields[3] = (*generator.choose(&["2", "feb", "4", "2,6", "*"])).to_owned();
        }
        // The hours of clock changes.
        4..9 => fields[1] = (*generator.choose(&["0", "1", "2", "3", "0-3", "23,0", "*/2"])).to_owned(),
        _ => {}
    }
    fields.join(" ")
}

fn field(generator: &CaseGenerator, bounds: &Bounds) -> String {
    if generator.once_in(3) {
        return "*".to_owned();
    }
    let entries: Vec<String> = (0..*generator.choose(&[1, 1, 1, 2, 3])).map(|_| entry(generator, bounds)).collect();
    let list = entries.join(",");
    match generator.below(80) {
        0 => format!(",{list}"),
        1 => format!("{list},"),
        2 => list.replace(',', ",,"),
        // Only for days and months: five years without a matching minute take the library very long.
        3 if bounds.from == 1 => ",".to_owned(),
        _ => list,
    }
}

fn entry(generator: &CaseGenerator, bounds: &Bounds) -> String {
    let one = || value(generator, bounds);
    let step = || (1 + generator.below(20)).to_string();
    match generator.below(32) {
        0..10 => one(),
        10..16 => {
            let (a, b) = (number_within(generator, bounds), number_within(generator, bounds));
            format!("{}-{}", a.min(b), a.max(b))
        }
        16 => format!("{}-{}", one(), one()),
        17..21 => format!("*/{}", step()),
        21..24 => format!("{}/{}", one(), step()),
        24..27 => format!("{}-{}/{}", bounds.from, number_within(generator, bounds), step()),
        27 => "?".to_owned(),
        28 => format!("?/{}", step()),
        29 => "*".to_owned(),
        _ => odd_entry(generator, bounds),
    }
}

/// Valid or not, an entry that people would not write.
fn odd_entry(generator: &CaseGenerator, bounds: &Bounds) -> String {
    let one = number_within(generator, bounds);
    match generator.below(18) {
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
        15 => (*generator.choose(&["mon", "january", "L", "#", "1.5", "0x1", "1_0", "٣", "**", "*5"])).to_owned(),
        16 => format!("{one}/-{one}"),
        _ => format!("{one}-{}", bounds.to + 1),
    }
}

fn value(generator: &CaseGenerator, bounds: &Bounds) -> String {
    if !bounds.names.is_empty() && generator.once_in(2) {
        return (*generator.choose(bounds.names)).to_owned();
    }
    number_within(generator, bounds).to_string()
}

fn number_within(generator: &CaseGenerator, bounds: &Bounds) -> i64 {
    bounds.from + generator.below((bounds.to - bounds.from + 1) as usize) as i64
}

fn random_duration(generator: &CaseGenerator) -> String {
    let number = || generator.below(*generator.choose(&[10, 100, 10_000]));
    let unit = || *generator.choose(&["ns", "us", "µs", "ms", "s", "s", "m", "m", "h", "h", "d", ""]);
    match generator.below(12) {
        0 => format!("{}.{}{}", number(), number(), unit()),
        1 => format!("-{}{}", number(), unit()),
        2 => format!("+{}{}", number(), unit()),
        3 => (*generator.choose(&["", "0", "1", "h", ".", ".s", "1.s", ".5s", " 5m", "5m ", "5 m", "1e3s", "x"]))
            .to_owned(),
        4 => {
            (*generator.choose(&["2562047h", "2562048h", "9223372036854775807ns", "9223372036854775808ns"])).to_owned()
        }
        5..8 => format!("{}h{}m{}s", number(), number(), number()),
        _ => format!("{}{}", number(), unit()),
    }
}

fn garbage(generator: &CaseGenerator) -> String {
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
    (0..=generator.below(3)).map(|_| *generator.choose(PIECES)).collect()
}

/// A time near a clock change of the zone, at the end of February, or anywhere; rarely in other centuries.
fn random_time(generator: &CaseGenerator, zone: &str) -> Timestamp {
    let year = match generator.below(30) {
        0 => *generator.choose(&[1, 1000, 1800, 1895]),
        1 => *generator.choose(&[1916, 1945, 1970, 2000, 2100]),
        2 => *generator.choose(&[2400, 5000, 9990]),
        _ => 2020 + generator.below(18),
    };
    let anywhere = |days: usize, from: &str| -> Timestamp {
        let begin: Timestamp = format!("{year:04}-{from}T00:00:00Z").parse().expect("a day of any year");
        begin + Duration::from_secs(generator.below(days * 86_400) as u64)
    };
    let time = anywhere(365, "01-01");
    match generator.below(8) {
        0 => anywhere(3, "02-27"),
        1..4 => {
            let change = time_zone(zone).and_then(|zone| zone.following(time).next().map(|change| change.timestamp()));
            // From a day and a half before to half a day after.
            let near = Duration::from_secs(generator.below(2 * 86_400) as u64);
            change.map_or(time, |change| change - Duration::from_secs(36 * 3600) + near)
        }
        4 => time + Duration::from_millis(generator.below(1000) as u64),
        _ => time,
    }
}
