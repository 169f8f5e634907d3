//! The units of a generated day, with their arrivals and durations. One seed gives one day.

use std::time::Duration;

use api::Random;

/// Nodes of the cluster, of 8 GPUs each.
pub const NODES: usize = 512;
pub const GPUS_PER_NODE: i64 = 8;
/// Nodes with the same rack label.
pub const NODES_PER_RACK: usize = 32;
/// When the last unit arrives.
pub const ARRIVALS_END: Duration = Duration::from_secs(24 * 3600);

/// A kind of unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitKind {
    /// Single pods of 1 or 2 GPUs.
    Small,
    /// Gangs of 8 to 32 pods of 2 GPUs.
    Gang,
    /// Gangs of 64 to 128 pods: of 4 GPUs anywhere, or of 2 GPUs in one rack.
    LargeGang,
    /// Gangs of 64 pods of 4 GPUs, which take a whole rack.
    Hopeless,
}

impl UnitKind {
    pub const ALL: [UnitKind; 4] = [UnitKind::Small, UnitKind::Gang, UnitKind::LargeGang, UnitKind::Hopeless];

    pub fn name(self) -> &'static str {
        match self {
            UnitKind::Small => "single pods",
            UnitKind::Gang => "gangs 8-32",
            UnitKind::LargeGang => "gangs 64+",
            UnitKind::Hopeless => "hopeless",
        }
    }
}

/// A pod or a gang.
#[derive(Clone, Debug)]
pub struct DayUnit {
    pub kind: UnitKind,
    pub arrival: Duration,
    /// From the bind of its last pod to its end.
    pub duration: Duration,
    pub pods: usize,
    pub gpus: i64,
    pub in_rack: bool,
}

/// A day.
#[derive(Clone, Debug)]
pub struct DayTrace {
    /// In the order of arrival.
    pub units: Vec<DayUnit>,
}

impl DayTrace {
    /// Together the units request about 85 % of the GPUs, hopeless ones aside.
    pub fn generate(seed: u64) -> DayTrace {
        let random = &Random::seeded(seed);
        let mut units = Vec::new();
        // The mean pause between arrivals and the mean duration, in seconds.
        for (kind, pause, duration) in [
            (UnitKind::Small, 2.2, 2_400.0),
            (UnitKind::Gang, 70.0, 1_800.0),
            (UnitKind::LargeGang, 950.0, 2_400.0),
            (UnitKind::Hopeless, 7_200.0, 0.0),
        ] {
            let mut arrival = Duration::ZERO;
            loop {
                arrival += exponential(random, pause);
                if arrival >= ARRIVALS_END {
                    break;
                }
                units.push(unit(kind, arrival, exponential(random, duration), random));
            }
        }
        units.sort_by_key(|unit| (unit.arrival, unit.kind));
        DayTrace { units }
    }
}

fn unit(kind: UnitKind, arrival: Duration, duration: Duration, random: &Random) -> DayUnit {
    let in_rack = kind == UnitKind::Hopeless || (kind == UnitKind::LargeGang && random.below(4) == 0);
    let (pods, gpus) = match kind {
        UnitKind::Small => (1, 1 + random.below(2) as i64),
        UnitKind::Gang => (8 + random.below(25) as usize, 2),
        UnitKind::LargeGang if in_rack => (64, 2),
        UnitKind::LargeGang => (64 + random.below(65) as usize, 4),
        UnitKind::Hopeless => (64, 4),
    };
    // No pod is shorter than a minute or longer than six hours.
    let duration = duration.clamp(Duration::from_secs(60), Duration::from_secs(6 * 3600));
    DayUnit { kind, arrival, duration, pods, gpus, in_rack }
}

/// A time with this mean, as between independent arrivals.
fn exponential(random: &Random, mean_seconds: f64) -> Duration {
    let uniform = (random.below(1 << 52) as f64 + 1.0) / (1u64 << 52) as f64;
    Duration::from_micros((-uniform.ln() * mean_seconds * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_requests_most_of_the_gpus() {
        let trace = DayTrace::generate(1);
        let gpu_seconds = |kind: UnitKind| -> f64 {
            let units = trace.units.iter().filter(|unit| unit.kind == kind);
            units.map(|unit| unit.duration.as_secs_f64() * (unit.pods as i64 * unit.gpus) as f64).sum()
        };
        let all = (NODES as i64 * GPUS_PER_NODE) as f64 * ARRIVALS_END.as_secs_f64();
        let shares = [UnitKind::Small, UnitKind::Gang, UnitKind::LargeGang].map(|kind| gpu_seconds(kind) / all);
        assert!((0.75..0.95).contains(&shares.iter().sum::<f64>()), "{shares:?}");
        assert!(shares.iter().all(|share| *share > 0.1), "{shares:?}");
        assert!(trace.units.is_sorted_by_key(|unit| unit.arrival));
    }
}
