//! Amounts of resources in the format of Kubernetes: `500m`, `1Gi`, `2e3`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A parsed quantity. Stored in billionths, the API's smallest unit. Smaller fractions are rounded up.
///
/// Prints in the canonical format of Kubernetes: no fraction, the largest suffix that leaves an integer, and a suffix
/// of the family of the parsed text (`1024Ki` is `1Mi`, `0.5` is `500m`, `1000e0` is `1e3`). Comparison ignores the
/// suffix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    suffixes: SuffixFamily,
}

/// The family of suffixes of a parsed quantity.
#[derive(Clone, Copy, Debug, Default)]
enum SuffixFamily {
    /// `m`, `k`, `M`, or none.
    #[default]
    Decimal,
    /// `Ki`, `Mi`.
    Binary,
    /// `e3`.
    Exponent,
}

const NANO: i128 = 1_000_000_000;

/// The text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct ParseQuantityError;

impl Quantity {
    fn from_nanos(nanos: i128, suffixes: SuffixFamily) -> Quantity {
        Quantity { nanos, suffixes }
    }

    /// An integer.
    pub fn whole(value: i64) -> Quantity {
        Quantity::from_nanos(i128::from(value) * NANO, SuffixFamily::Decimal)
    }

    /// A number of thousandths.
    pub fn milli(value: i64) -> Quantity {
        Quantity::from_nanos(i128::from(value) * (NANO / 1000), SuffixFamily::Decimal)
    }

    /// The sum, with the suffix family of `self`. Zero plus an amount is that amount.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        let suffixes = if self.nanos == 0 { other.suffixes } else { self.suffixes };
        Quantity::from_nanos(self.nanos.saturating_add(other.nanos), suffixes)
    }

    /// Whether the amount is a multiple of `size`. Zero is one.
    pub fn is_multiple_of(self, size: Quantity) -> bool {
        size.nanos > 0 && self.nanos % size.nanos == 0
    }

    /// The value as an integer, rounded up, saturating.
    pub fn value(self) -> i64 {
        ceil_div(self.nanos, NANO)
    }

    /// The value in thousandths, rounded up, saturating.
    pub fn milli_value(self) -> i64 {
        ceil_div(self.nanos, NANO / 1000)
    }

    /// Whether the value is negative.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether the value is an integer.
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// Parses the text format.
    pub fn parse(text: &str) -> Result<Quantity, ParseQuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(ParseQuantityError);
        }
        let scale = SuffixScale::parse(suffix)?;
        let magnitude = scale.apply(whole, fraction).ok_or(ParseQuantityError)?;
        Ok(Quantity::from_nanos(if negative { -magnitude } else { magnitude }, scale.suffix_family(suffix)))
    }
}

fn ceil_div(value: i128, unit: i128) -> i64 {
    let rounded = value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0);
    rounded.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

enum SuffixScale {
    Decimal(i32),
    Binary(u32),
}

impl SuffixScale {
    fn parse(suffix: &str) -> Result<SuffixScale, ParseQuantityError> {
        Ok(match suffix {
            "" => SuffixScale::Decimal(0),
            "n" => SuffixScale::Decimal(-9),
            "u" => SuffixScale::Decimal(-6),
            "m" => SuffixScale::Decimal(-3),
            "k" => SuffixScale::Decimal(3),
            "M" => SuffixScale::Decimal(6),
            "G" => SuffixScale::Decimal(9),
            "T" => SuffixScale::Decimal(12),
            "P" => SuffixScale::Decimal(15),
            "E" => SuffixScale::Decimal(18),
            "Ki" => SuffixScale::Binary(10),
            "Mi" => SuffixScale::Binary(20),
            "Gi" => SuffixScale::Binary(30),
            "Ti" => SuffixScale::Binary(40),
            "Pi" => SuffixScale::Binary(50),
            "Ei" => SuffixScale::Binary(60),
            exponent => {
                let digits = exponent.strip_prefix(['e', 'E']).ok_or(ParseQuantityError)?;
                SuffixScale::Decimal(digits.parse().map_err(|_| ParseQuantityError)?)
            }
        })
    }

    fn suffix_family(&self, written: &str) -> SuffixFamily {
        match self {
            SuffixScale::Binary(_) => SuffixFamily::Binary,
            SuffixScale::Decimal(_) if written.len() > 1 => SuffixFamily::Exponent,
            SuffixScale::Decimal(_) => SuffixFamily::Decimal,
        }
    }

    /// `whole.fraction` in this scale, in billionths, rounded up. `None` if it is not a number or out of range.
    fn apply(&self, whole: &str, fraction: &str) -> Option<i128> {
        let fraction = fraction.trim_end_matches('0');
        // Digits of a fraction after the 30th have no effect, and an integer with more digits is out of range.
        let fraction = &fraction[..fraction.len().min(30)];
        let digits: String = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        if mantissa == 0 {
            return Some(0);
        }
        let (mantissa, decimal) = match self {
            SuffixScale::Decimal(power) => (mantissa, *power),
            SuffixScale::Binary(bits) => (mantissa.checked_mul(1_i128 << bits)?, 0),
        };
        let power = decimal.checked_add(9)?.checked_sub(fraction.len() as i32)?;
        if power >= 0 {
            mantissa.checked_mul(10_i128.checked_pow(power as u32)?)
        } else {
            let unit = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
            Some(mantissa / unit + i128::from(mantissa % unit != 0))
        }
    }
}

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Numbers below 1024 are printed without a suffix. A binary suffix has no fraction: it is rounded up.
        let binary = matches!(self.suffixes, SuffixFamily::Binary) && self.nanos.abs() >= 1024 * NANO;
        if binary {
            let whole = self.nanos.div_euclid(NANO) + i128::from(self.nanos.rem_euclid(NANO) != 0);
            let (number, steps) = divide_out(whole, 1024, BINARY.len() - 1);
            return write!(f, "{number}{}", BINARY[steps]);
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let (number, steps) = divide_out(self.nanos, 1000, DECIMAL.len() - 1);
        let exponent = 3 * steps as i32 - 9;
        match self.suffixes {
            SuffixFamily::Exponent if exponent != 0 => write!(f, "{number}e{exponent}"),
            _ => write!(f, "{number}{}", DECIMAL[steps]),
        }
    }
}

/// `number` divided by `factor` as long as there is no remainder, and the number of divisions.
fn divide_out(mut number: i128, factor: i128, max_steps: usize) -> (i128, usize) {
    let mut steps = 0;
    while steps < max_steps && number != 0 && number % factor == 0 {
        number /= factor;
        steps += 1;
    }
    (number, steps)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuantityVisitor;
        impl serde::de::Visitor<'_> for QuantityVisitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a quantity such as \"500m\", \"1Gi\" or 4")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                Quantity::parse(text).map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Quantity, E> {
                Ok(Quantity::whole(value))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity::from_nanos(i128::from(value) * NANO, SuffixFamily::Decimal))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Quantity, E> {
                Quantity::parse(&value.to_string()).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(QuantityVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn parsed_values_equal_those_of_kubernetes() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1000),
            ("100m", 100),
            ("1.5", 1500),
            (".5", 500),
            ("5.", 5000),
            ("1k", 1_000_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("2e3", 2_000_000),
            ("2E-3", 2),
            ("-3", -3000),
            ("+3", 3000),
            ("1n", 1),
            ("0.0001", 1),
        ] {
            assert_eq!(Quantity::parse(text).map(Quantity::milli_value), Ok(milli), "{text}");
        }
    }

    #[test]
    fn largest_values_are_exact() {
        assert_eq!(Quantity::parse("9223372036854775807").map(Quantity::value), Ok(i64::MAX));
        assert_eq!(Quantity::parse("16Ei").map(Quantity::value), Ok(i64::MAX));
        assert_eq!(Quantity::parse("1E").map(Quantity::value), Ok(1_000_000_000_000_000_000));
    }

    #[test]
    fn quantities_print_in_the_canonical_format_of_kubernetes() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("0e3", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1000", "1k"),
            ("1000000", "1M"),
            ("1234567", "1234567"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("2048Mi", "2Gi"),
            ("1025Ki", "1025Ki"),
            ("1.0001Ki", "1025"),
            ("1e3", "1e3"),
            ("100e1", "1e3"),
            ("1E3", "1e3"),
            ("5e0", "5"),
            ("2e-3", "2e-3"),
            ("-1000m", "-1"),
            ("-1.5Gi", "-1536Mi"),
            ("1E", "1E"),
            ("0.1n", "1n"),
        ] {
            let quantity = Quantity::parse(text).expect(text);
            assert_eq!(quantity.to_string(), canonical, "{text}");
            assert_eq!(Quantity::parse(canonical).expect(canonical).to_string(), canonical, "{canonical} stays");
        }
    }

    #[test]
    fn equal_amounts_with_different_suffixes_are_equal() {
        let parse = |text| Quantity::parse(text).expect("a quantity");
        assert_eq!(parse("1Ki"), parse("1024"));
        assert_eq!(parse("1e3"), parse("1k"));
        assert!(parse("1Gi") > parse("1G"));
    }

    #[test]
    fn invalid_quantities_are_refused() {
        for text in ["", "-", ".", "1.2.3", "1 Gi", "Gi", "1gi", "0x10", "1e", "abc", "1mm"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
