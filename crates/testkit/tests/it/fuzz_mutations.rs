//! Mutated seeds of the fuzz targets, on the stable compiler and the same for the same seed. `PHALANX_FUZZ_SEED` selects
//! the mutations, `PHALANX_FUZZ_INPUTS` their number for each target.

use api::Random;
use testkit::fuzz::TARGETS;

use crate::fuzz_seeds::seeds;

/// Enough to show in `cargo test` that the mutations work.
const DEFAULT_INPUTS: usize = 40;

/// Longer inputs are rarely mutated where it matters.
const MAX_INPUT_BYTES: usize = 16 << 10;

#[test]
fn mutated_seeds_pass_all_checks() {
    let seed: u64 = std::env::var("PHALANX_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap());
    let inputs: usize = std::env::var("PHALANX_FUZZ_INPUTS").map_or(DEFAULT_INPUTS, |count| count.parse().unwrap());
    std::thread::scope(|scope| {
        for (number, (name, check)) in (0u64..).zip(TARGETS) {
            scope.spawn(move || {
                let random = Random::seeded(seed.wrapping_mul(TARGETS.len() as u64).wrapping_add(number));
                let mut files: Vec<Vec<u8>> = seeds(name).iter().map(|file| std::fs::read(file).unwrap()).collect();
                files.retain(|file| file.len() <= MAX_INPUT_BYTES);
                for input in 0..inputs {
                    let mutated = mutate(&files, &random);
                    let result = std::panic::catch_unwind(|| check(&mutated));
                    assert!(
                        result.is_ok(),
                        "{name}, seed {seed}, input {input}: {:?}",
                        String::from_utf8_lossy(&mutated)
                    );
                }
            });
        }
    });
    println!("cases: {}", inputs * TARGETS.len());
}

/// One of `files` with one to eight changes.
fn mutate(files: &[Vec<u8>], random: &Random) -> Vec<u8> {
    let below = |bound: usize| random.below(bound.max(1) as u64) as usize;
    let mut input = files[below(files.len())].clone();
    for _ in 0..=below(8) {
        let at = below(input.len());
        let length = below(input.len() - at).min(1 + below(32));
        match random.below(6) {
            // One bit, and one character that has a meaning in JSON, YAML, selectors and tokens.
            0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
            1 => input.insert(at, b"{}[]\"',:-0!=()\\\n \xff"[below(18)]),
            2 => drop(input.drain(at..at + length)),
            3 => {
                let repeated = input[at..at + length].to_vec();
                input.splice(at..at, repeated);
            }
            4 => {
                let other = &files[below(files.len())];
                let from = below(other.len());
                let part = other[from..].iter().take(1 + below(64)).copied().collect::<Vec<u8>>();
                input.splice(at..at + length, part);
            }
            _ => input.truncate(input.len() - below(input.len()).min(16)),
        }
    }
    input
}

#[test]
fn the_same_seed_gives_the_same_mutations() {
    let files = [b"a=b,c in (d)".to_vec(), b"metadata.name=x".to_vec()];
    let inputs = |seed| {
        let random = Random::seeded(seed);
        (0..100).map(|_| mutate(&files, &random)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}
