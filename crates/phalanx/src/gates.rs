//! `--feature-gates A=true,B=false`: the features that a command runs with.

use api::gates::{Gates, ParsedGates};

/// The gates of `options` on top of those of a file. What deserves a warning is said on standard error.
pub fn resolve(options: &[String], file: &[(String, String)]) -> Result<Gates, String> {
    let ParsedGates { gates, warnings } = merge(options, file)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    Ok(gates)
}

fn merge(options: &[String], file: &[(String, String)]) -> Result<ParsedGates, String> {
    let mut settings = file.to_vec();
    for text in options.iter().filter(|text| !text.is_empty()) {
        let pair = text.split_once('=');
        let (name, value) = pair.ok_or_else(|| format!("--feature-gates {text}: write it like A=true,B=false"))?;
        settings.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    Gates::from_settings(&settings).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use api::gates::Gate;

    use super::*;

    #[test]
    fn options_win_over_the_file_and_problems_say_what_to_write() {
        let file = [("WorkloadWithJob".to_owned(), "false".to_owned())];
        let settled = |options: &[&str]| merge(&options.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), &file);
        assert!(!settled(&[""]).unwrap().gates.enabled(Gate::WorkloadWithJob));
        assert!(settled(&["WorkloadWithJob=true"]).unwrap().gates.enabled(Gate::WorkloadWithJob));
        assert_eq!(settled(&["GangScheduling=true"]).unwrap().warnings.len(), 1);
        assert!(settled(&["WorkloadWithJob"]).unwrap_err().contains("write it like A=true"));
        assert!(settled(&["Nonsense=true"]).unwrap_err().contains("known are GenericWorkload"));
    }
}
