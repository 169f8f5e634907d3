//! How many cases a property tries: `PHALANX_CASES_FACTOR` multiplies the number of each, `PROPTEST_RNG_SEED` selects them.

use proptest::prelude::ProptestConfig;

/// The configuration of a property with this many cases in `cargo test`.
pub fn property_config(cases: u32) -> ProptestConfig {
    let factor = std::env::var("PHALANX_CASES_FACTOR").ok();
    let cases = cases * factor.as_ref().map_or(1, |factor| factor.parse::<u32>().unwrap());
    if factor.is_some() {
        println!("cases: {cases}");
    }
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
