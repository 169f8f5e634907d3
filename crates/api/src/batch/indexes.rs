//! Sets of indexes as text: `0-3,5`, in increasing order, as in `completedIndexes` and `succeededIndexes`.

/// Ranges of indexes, inclusive, in increasing order.
pub type IndexRanges = Vec<(i32, i32)>;

/// Parses a set whose indexes are all below `completions`. `Err` has the message.
pub fn parse(text: &str, completions: i32) -> Result<IndexRanges, String> {
    let mut runs = IndexRanges::new();
    if text.is_empty() {
        return Ok(runs);
    }
    for part in text.split(',') {
        let run = match part.split('-').collect::<Vec<_>>()[..] {
            [one] => {
                let index = parse_index(one, completions)?;
                (index, index)
            }
            [first, last] => {
                let (first, last) = (parse_index(first, completions)?, parse_index(last, completions)?);
                if first >= last {
                    return Err(format!("non-increasing order, previous: {first}, current: {last}"));
                }
                (first, last)
            }
            _ => {
                return Err(format!(
                    "the fragment {part:?} violates the requirement that an index interval can have at most two parts \
                     separated by '-'"
                ));
            }
        };
        if let Some((_, previous)) = runs.last().filter(|(_, previous)| *previous >= run.0) {
            return Err(format!("non-increasing order, previous: {previous}, current: {}", run.0));
        }
        runs.push(run);
    }
    Ok(runs)
}

fn parse_index(text: &str, completions: i32) -> Result<i32, String> {
    let index: i32 = text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
    if index >= completions { Err(format!("too large index: {text:?}")) } else { Ok(index) }
}

/// The number of indexes in `runs`.
pub fn count(runs: &[(i32, i32)]) -> i32 {
    runs.iter().map(|(first, last)| last - first + 1).sum()
}

/// The first index that is in both sets.
pub fn first_common_index(one: &[(i32, i32)], other: &[(i32, i32)]) -> Option<i32> {
    let shared =
        |(first, last): &(i32, i32), (low, high): &(i32, i32)| (first <= high && low <= last).then(|| *first.max(low));
    one.iter().flat_map(|run| other.iter().filter_map(move |with| shared(run, with))).min()
}

#[cfg(test)]
mod tests {
    use super::{count, first_common_index, parse};

    #[test]
    fn sets_are_parsed_to_ranges() {
        let runs = parse("0-3,5,7-8", 9).expect("a set");
        assert_eq!(runs, [(0, 3), (5, 5), (7, 8)]);
        assert_eq!(count(&runs), 7);
        assert_eq!(parse("", 9), Ok(vec![]));
        assert_eq!(first_common_index(&runs, &[(4, 5)]), Some(5));
        assert_eq!(first_common_index(&runs, &[(4, 4), (6, 6)]), None);
    }

    #[test]
    fn error_about_a_malformed_set_has_the_position() {
        for (text, want) in [
            ("a", "cannot convert string to integer for index: \"a\""),
            ("1,", "cannot convert string to integer for index: \"\""),
            (
                "1-2-3",
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
            ("9", "too large index: \"9\""),
            ("3-3", "non-increasing order, previous: 3, current: 3"),
            ("4,2", "non-increasing order, previous: 4, current: 2"),
            ("0-4,4", "non-increasing order, previous: 4, current: 4"),
        ] {
            assert_eq!(parse(text, 9), Err(want.to_owned()), "{text}");
        }
    }
}
