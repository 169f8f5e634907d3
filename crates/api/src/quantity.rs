//! Amounts of resources, as Kubernetes writes them: `500m`, `1Gi`, `2e3`.

use serde::{Deserialize, Deserializer};

/// A parsed quantity. Kept in billionths, the finest grain the API has: smaller fractions are rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

const NANO: i128 = 1_000_000_000;

/// The text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct BadQuantity;

impl Quantity {
    /// A whole number.
    pub fn whole(value: i64) -> Quantity {
        Quantity { nanos: i128::from(value) * NANO }
    }

    /// A number of thousandths.
    pub fn milli(value: i64) -> Quantity {
        Quantity { nanos: i128::from(value) * (NANO / 1000) }
    }

    /// The value in whole units, rounded up, kept within i64.
    pub fn value(self) -> i64 {
        ceil_div(self.nanos, NANO)
    }

    /// The value in thousandths, rounded up, kept within i64.
    pub fn milli_value(self) -> i64 {
        ceil_div(self.nanos, NANO / 1000)
    }

    /// Whether the value is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether the value has no fraction.
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Result<Quantity, BadQuantity> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(BadQuantity);
        }
        let scale = Scale::parse(suffix)?;
        let magnitude = scale.apply(whole, fraction).ok_or(BadQuantity)?;
        Ok(Quantity { nanos: if negative { -magnitude } else { magnitude } })
    }
}

fn ceil_div(value: i128, unit: i128) -> i64 {
    let rounded = value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0);
    rounded.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

enum Scale {
    Decimal(i32),
    Binary(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Result<Scale, BadQuantity> {
        Ok(match suffix {
            "" => Scale::Decimal(0),
            "n" => Scale::Decimal(-9),
            "u" => Scale::Decimal(-6),
            "m" => Scale::Decimal(-3),
            "k" => Scale::Decimal(3),
            "M" => Scale::Decimal(6),
            "G" => Scale::Decimal(9),
            "T" => Scale::Decimal(12),
            "P" => Scale::Decimal(15),
            "E" => Scale::Decimal(18),
            "Ki" => Scale::Binary(10),
            "Mi" => Scale::Binary(20),
            "Gi" => Scale::Binary(30),
            "Ti" => Scale::Binary(40),
            "Pi" => Scale::Binary(50),
            "Ei" => Scale::Binary(60),
            exponent => {
                let digits = exponent.strip_prefix(['e', 'E']).ok_or(BadQuantity)?;
                Scale::Decimal(digits.parse().map_err(|_| BadQuantity)?)
            }
        })
    }

    /// `whole.fraction` in this scale, in billionths, rounded up. `None` when it is not a number or far too large.
    fn apply(&self, whole: &str, fraction: &str) -> Option<i128> {
        let fraction = fraction.trim_end_matches('0');
        // Past 30 digits nothing of a fraction can matter, and a whole part that long is out of range.
        let fraction = &fraction[..fraction.len().min(30)];
        let digits: String = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        if mantissa == 0 {
            return Some(0);
        }
        let (mantissa, decimal) = match self {
            Scale::Decimal(power) => (mantissa, *power),
            Scale::Binary(bits) => (mantissa.checked_mul(1_i128 << bits)?, 0),
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

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
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
                Ok(Quantity { nanos: i128::from(value) * NANO })
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Quantity, E> {
                Quantity::parse(&value.to_string()).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn texts_have_the_value_kubernetes_gives_them() {
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
    fn the_largest_values_stay_exact() {
        assert_eq!(Quantity::parse("9223372036854775807").map(Quantity::value), Ok(i64::MAX));
        assert_eq!(Quantity::parse("16Ei").map(Quantity::value), Ok(i64::MAX));
        assert_eq!(Quantity::parse("1E").map(Quantity::value), Ok(1_000_000_000_000_000_000));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "-", ".", "1.2.3", "1 Gi", "Gi", "1gi", "0x10", "1e", "abc", "1mm"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
