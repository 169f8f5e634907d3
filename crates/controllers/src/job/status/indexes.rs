//! Completion indexes as `status.completedIndexes` writes them: `0-3,5,7,8`.

use std::fmt;

/// A set of completion indexes: ascending intervals that neither overlap nor touch.
///
/// A finished Job of 100,000 indexes is one interval, so the set stays small however large the Job is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Parses the text of a Job with that many completions.
    ///
    /// The text may be older than the Job: indexes beyond its completions are dropped, and a fragment that is no
    /// interval is skipped, because one bad fragment must not undo the count of all the others.
    pub fn parse(text: &str, completions: i32) -> Indexes {
        let mut indexes = Indexes::default();
        for fragment in text.split(',') {
            let (first, last) = fragment.split_once('-').unwrap_or((fragment, fragment));
            if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
                indexes.insert_range(first.max(0), last.min(completions.saturating_sub(1)));
            }
        }
        indexes
    }

    /// Whether `index` is in the set.
    pub fn contains(&self, index: i32) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= index);
        after > 0 && self.0[after - 1].1 >= index
    }

    /// How many indexes are in both sets.
    pub fn intersection_len(&self, other: &Indexes) -> i32 {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut count = 0;
        while let (Some(one), Some(with)) = (ours.peek(), theirs.peek()) {
            count += (one.1.min(with.1) - one.0.max(with.0) + 1).max(0);
            // Only the interval that ends first cannot overlap the next one of the other set.
            if one.1 < with.1 {
                ours.next()
            } else {
                theirs.next()
            };
        }
        count
    }

    /// The indexes of a Job with that many completions that are not in the set, ascending.
    pub fn missing(&self, completions: i32) -> impl Iterator<Item = i32> {
        let firsts = std::iter::once(0).chain(self.0.iter().map(|(_, last)| last + 1));
        let ends = self.0.iter().map(|(first, _)| *first).chain(std::iter::once(completions));
        firsts.zip(ends).flat_map(|(first, end)| first..end)
    }

    /// Adds one index.
    pub fn insert(&mut self, index: i32) {
        self.insert_range(index, index);
    }

    /// How many indexes are in the set.
    pub fn len(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn insert_range(&mut self, first: i32, last: i32) {
        if first > last {
            return;
        }
        // Everything from `start` to `end` overlaps or touches the new interval and is merged into it.
        let start = self.0.partition_point(|(_, other_last)| *other_last < first - 1);
        let end = self.0.partition_point(|(other_first, _)| *other_first <= last.saturating_add(1));
        let merged = self.0[start..end].iter().fold((first, last), |all, one| (all.0.min(one.0), all.1.max(one.1)));
        self.0.splice(start..end, [merged]);
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Indexes;

    #[test]
    fn indexes_are_parsed_and_printed_as_upstream_does() {
        for (case, text, completions, want) in [
            ("empty", "", 5, ""),
            ("one", "3", 5, "3"),
            ("two neighbours are listed", "1,2", 5, "1,2"),
            ("three are an interval", "1,2,3", 5, "1-3"),
            ("touching intervals are joined", "0-1,2-3", 5, "0-3"),
            ("a gap stays", "0-2,4", 5, "0-2,4"),
            ("truncated by a scale-down", "0-2,4-9", 6, "0-2,4,5"),
            ("wholly beyond", "7-9", 6, ""),
            ("a bad fragment is skipped", "0,x,2-y,4", 6, "0,4"),
            ("any order", "4,0-2", 6, "0-2,4"),
        ] {
            assert_eq!(Indexes::parse(text, completions).to_string(), want, "{case}");
        }
    }

    #[test]
    fn the_intersection_of_two_sets_is_counted() {
        for (one, other, want) in [
            ("", "0-9", 0),
            ("0-9", "0-9", 10),
            ("0-4", "5-9", 0),
            ("0-4", "4-9", 1),
            ("0-9", "1,3,5-7", 5),
            ("0,2,4,6,8", "1-4,8-9", 3),
            ("0-2,5-9", "1-6", 4),
        ] {
            let parse = |text: &str| Indexes::parse(text, 10);
            assert_eq!(parse(one).intersection_len(&parse(other)), want, "{one} and {other}");
            assert_eq!(parse(other).intersection_len(&parse(one)), want, "{other} and {one}");
        }
    }

    #[test]
    fn set_agrees_with_a_plain_list_of_flags() {
        let mut flags = [false; 40];
        let mut indexes = Indexes::default();
        let mut next = 7_i32;
        for _ in 0..60 {
            next = (next * 11 + 5) % 40;
            flags[next as usize] = true;
            indexes.insert(next);
            let members: Vec<i32> = (0..40).filter(|index| flags[*index as usize]).collect();
            assert_eq!((0..40).filter(|index| indexes.contains(*index)).collect::<Vec<_>>(), members);
            assert_eq!(indexes.len() as usize, members.len());
            assert!(indexes.missing(40).eq((0..40).filter(|index| !members.contains(index))));
            assert_eq!(Indexes::parse(&indexes.to_string(), 40), indexes);
        }
    }
}
