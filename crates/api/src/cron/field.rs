//! One field of a schedule: a set of numbers.

use super::quote;

/// The range of a field's numbers, and their names.
pub(super) struct FieldBounds {
    min: u32,
    max: u32,
    /// Names of the numbers from `min` on.
    names: &'static [&'static str],
}

pub(super) const MINUTES: FieldBounds = FieldBounds { min: 0, max: 59, names: &[] };
pub(super) const HOURS: FieldBounds = FieldBounds { min: 0, max: 23, names: &[] };
pub(super) const DAYS_OF_MONTH: FieldBounds = FieldBounds { min: 1, max: 31, names: &[] };
pub(super) const MONTHS: FieldBounds = FieldBounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const DAYS_OF_WEEK: FieldBounds =
    FieldBounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// The numbers of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CronField {
    /// One bit per number.
    bits: u64,
    /// Whether the field has `*` or `?`. It matters for the two fields of days.
    is_wildcard: bool,
}

impl CronField {
    /// Parses `*`, `5`, `mon-fri`, `*/15`, `5/15`, `1-9/2`, or a list of these. Empty entries of a list are ignored, so
    /// a single comma is an empty set.
    pub(super) fn parse(text: &str, bounds: &FieldBounds) -> Result<CronField, String> {
        let mut field = CronField { bits: 0, is_wildcard: false };
        for entry in text.split(',').filter(|entry| !entry.is_empty()) {
            let CronField { bits, is_wildcard: open } = range(entry, bounds)?;
            field = CronField { bits: field.bits | bits, is_wildcard: field.is_wildcard || open };
        }
        Ok(field)
    }

    /// Whether `number` is in the set.
    pub(super) fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits & (1 << number) != 0)
    }

    /// Whether the field is a wildcard.
    pub(super) fn is_wildcard(self) -> bool {
        self.is_wildcard
    }
}

fn range(entry: &str, bounds: &FieldBounds) -> Result<CronField, String> {
    let (ends, step_text) = match entry.split('/').collect::<Vec<_>>()[..] {
        [ends] => (ends, None),
        [ends, step] => (ends, Some(step)),
        _ => return Err(format!("too many slashes: {entry}")),
    };
    let parts: Vec<&str> = ends.split('-').collect();
    let is_star = matches!(parts[0], "*" | "?");
    let (first, mut last) = match parts[..] {
        _ if is_star => (bounds.min, bounds.max),
        [one] => {
            let number = number_or_name(one, bounds)?;
            (number, number)
        }
        [first, last] => (number_or_name(first, bounds)?, number_or_name(last, bounds)?),
        _ => return Err(format!("too many hyphens: {entry}")),
    };
    let step = step_text.map_or(Ok(1), number)?;
    if step_text.is_some() && parts.len() == 1 {
        // `5/15` means from 5 on.
        last = bounds.max;
    }
    let FieldBounds { min, max, .. } = bounds;
    if first < *min {
        return Err(format!("beginning of range ({first}) below minimum ({min}): {entry}"));
    }
    if last > *max {
        return Err(format!("end of range ({last}) above maximum ({max}): {entry}"));
    }
    if first > last {
        return Err(format!("beginning of range ({first}) beyond end of range ({last}): {entry}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {entry}"));
    }
    let numbers = (first..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    Ok(CronField { bits: numbers.fold(0, |bits, number| bits | 1 << number), is_wildcard: is_star && step == 1 })
}

fn number_or_name(text: &str, bounds: &FieldBounds) -> Result<u32, String> {
    let named = bounds.names.iter().zip(bounds.min..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(_, number)| Ok(number))
}

/// A number without a sign, or with a plus.
fn number(text: &str) -> Result<u32, String> {
    let cause = match text.parse::<i64>() {
        Ok(number) if number < 0 => return Err(format!("negative number ({number}) not allowed: {text}")),
        // All bounds are far below the 32-bit maximum, so larger numbers are equally out of range.
        Ok(number) => return Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(error) => match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        },
    };
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {cause}", quote::text(text)))
}
