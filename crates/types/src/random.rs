//! Randomness, as an argument: one generator per process, seeded once.

use std::sync::{Arc, Mutex, PoisonError};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Upstream's alphabet for generated names: without vowels and similar characters, so that no words occur by chance.
pub const NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A shared generator. The same seed and the same calls give the same values.
#[derive(Clone)]
pub struct Random(Arc<Mutex<ChaCha8Rng>>);

impl Random {
    /// A generator with a fixed seed.
    pub fn seeded(seed: u64) -> Random {
        Random(Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))))
    }

    /// The next 64 bits.
    pub fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "the bound must not be zero");
        // The bias of a 64-bit remainder is negligible for jitter and names.
        self.next_u64() % bound
    }

    /// A version 4 UUID as text, for `metadata.uid`.
    pub fn uid(&self) -> String {
        let high = (self.next_u64() & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (self.next_u64() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        let text = format!("{high:016x}{low:016x}");
        format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
    }

    /// The five characters that are appended to `metadata.generateName`.
    pub fn name_suffix(&self) -> String {
        (0..5).map(|_| NAME_ALPHABET[self.below(27) as usize] as char).collect()
    }
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Random")
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn same_seed_gives_the_same_names_and_uids() {
        let (a, b) = (Random::seeded(7), Random::seeded(7));
        assert_eq!((a.uid(), a.name_suffix()), (b.uid(), b.name_suffix()));
        assert_ne!(a.uid(), a.uid());
    }

    #[test]
    fn uid_is_a_version_4_uuid() {
        let uid = Random::seeded(1).uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!("89ab".contains(&uid[19..20]), "{uid}");
    }
}
