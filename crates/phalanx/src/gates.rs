//! `--feature-gates A=true,B=false`: the feature gates of a command.

use api::gates::{Gates, ParsedGates};

/// The gates of `options` over those of a file. Warnings go to standard error.
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
        let (name, value) = pair.ok_or_else(|| format!("--feature-gates {text}: must be like A=true,B=false"))?;
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
    fn options_take_precedence_over_the_file_and_errors_show_the_form() {
        let file = [("WorkloadWithJob".to_owned(), "false".to_owned())];
        let merged = |options: &[&str]| merge(&options.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), &file);
        assert!(!merged(&[""]).unwrap().gates.enabled(Gate::WorkloadWithJob));
        assert!(merged(&["WorkloadWithJob=true"]).unwrap().gates.enabled(Gate::WorkloadWithJob));
        assert_eq!(merged(&["GangScheduling=true"]).unwrap().warnings.len(), 1);
        assert!(merged(&["WorkloadWithJob"]).unwrap_err().contains("must be like A=true"));
        assert!(merged(&["Nonsense=true"]).unwrap_err().contains("known are GenericWorkload"));
    }
}
