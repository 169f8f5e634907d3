//! The duration of `@every` in Go's format: `1h30m`, `2.5s`, `-5m`.

use jiff::SignedDuration;

use super::quote;

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration. `Err` has Go's message.
pub(super) fn parse(text: &str) -> Result<SignedDuration, String> {
    let quoted = quote::span(text);
    let invalid = || format!("time: invalid duration {quoted}");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let (whole, tail) = split_digits(rest);
        let (fraction, tail) = tail.strip_prefix('.').map_or(("", tail), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, after) = tail.split_at(unit_end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {quoted}"));
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {} in duration {quoted}", quote::span(unit)));
        };
        nanos += unit_nanos(whole, fraction, *size).ok_or_else(invalid)?;
        rest = after;
    }
    let nanos = if negative { -nanos } else { nanos };
    let within = i64::try_from(nanos).map_err(|_| invalid())?;
    Ok(SignedDuration::from_nanos(within))
}

/// The leading digits of `text`, and the rest.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `whole.fraction` units of `size` nanoseconds, truncated to nanoseconds.
fn unit_nanos(whole: &str, fraction: &str, size: i128) -> Option<i128> {
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits after the eighteenth are less than a nanosecond in any unit.
    let digits = &fraction[..fraction.len().min(18)];
    let part: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let scale = 10_i128.pow(u32::try_from(digits.len()).ok()?);
    whole.checked_mul(size)?.checked_add(part.checked_mul(size)? / scale)
}
