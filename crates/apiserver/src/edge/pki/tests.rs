//! Which files are reused, renewed and refused.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::edge::authentication;

/// A directory that is removed after the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("phalanx-pki-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap()
    }

    fn all(&self) -> [String; 4] {
        ["ca.pem", "server.pem", "admin.pem", "token"].map(|file| self.text(file))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const HOSTS: [&str; 1] = ["gpu.example"];

fn hosts() -> Vec<String> {
    HOSTS.map(str::to_owned).to_vec()
}

#[test]
fn a_second_start_reuses_the_files() {
    let dir = Dir::new("reuse");
    Pki::ensure(&dir.0, &hosts(), time("2026-01-01T00:00:00Z")).unwrap();
    let first = dir.all();
    Pki::ensure(&dir.0, &hosts(), time("2026-11-30T00:00:00Z")).unwrap();
    assert_eq!(first, dir.all());
}

#[test]
fn only_the_owner_can_read_the_keys() {
    let dir = Dir::new("rights");
    let now = time("2026-01-01T00:00:00Z");
    Pki::ensure(&dir.0, &[], now).unwrap();
    for file in ["ca.pem", "server.pem", "admin.pem", "token"] {
        let mode = std::fs::metadata(dir.0.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(std::fs::metadata(&dir.0).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn certificates_are_renewed_in_their_last_month_and_by_the_same_ca() {
    let dir = Dir::new("renew");
    Pki::ensure(&dir.0, &[], time("2026-01-01T00:00:00Z")).unwrap();
    let [ca, server, admin, token] = dir.all();
    Pki::ensure(&dir.0, &[], time("2026-12-15T00:00:00Z")).unwrap();
    let [ca_then, server_then, admin_then, token_then] = dir.all();
    assert_eq!((ca, token), (ca_then, token_then));
    assert!(server != server_then && admin != admin_then);
}

#[test]
fn certificates_stay_valid_after_the_clock_was_ahead() {
    let (dir, now) = (Dir::new("ahead"), time("2026-01-01T00:00:00Z"));
    Pki::ensure(&dir.0, &[], time("2026-06-01T00:00:00Z")).unwrap();
    let before = dir.all();
    Pki::ensure(&dir.0, &[], now).unwrap();
    assert_eq!(dir.all(), before, "certificates are backdated by more than that");

    Pki::ensure(&dir.0, &[], time("2046-01-01T00:00:00Z")).unwrap();
    let ahead = dir.all();
    let pki = Pki::ensure(&dir.0, &[], now).unwrap();
    for pair in [&pki.ca, &pki.server, &pki.admin] {
        assert!(pair.not_before() <= now.as_second() && pair.not_after() > now.as_second());
    }
    let renewed = dir.all();
    assert!((0..3).all(|file| renewed[file] != ahead[file]));
    assert_eq!(renewed[3], ahead[3], "a token does not expire");
    Pki::ensure(&dir.0, &[], now).unwrap();
    assert_eq!(dir.all(), renewed);
}

#[test]
fn files_that_another_user_can_read_or_write_are_refused() {
    let (dir, now) = (Dir::new("planted"), time("2026-01-01T00:00:00Z"));
    let refused = |file: &str, cause: &str| {
        let error = Pki::ensure(&dir.0, &[], now).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains(cause) && error.contains("remove it"), "{error}");
    };
    let chmod = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    Pki::ensure(&dir.0, &[], now).unwrap();
    for file in ["token", "ca.pem", "server.pem", "admin.pem"] {
        chmod(&dir.0.join(file), 0o666);
        refused(file, "it can be written by other users (mode 0666)");
        // A secret that was readable once is no longer secret.
        for mode in [0o644, 0o640, 0o604] {
            chmod(&dir.0.join(file), mode);
            refused(file, &format!("it can be read by other users (mode {mode:04o})"));
        }
        chmod(&dir.0.join(file), 0o600);
    }
    chmod(&dir.0, 0o777);
    refused("planted", "it can be written by other users (mode 0777)");
    chmod(&dir.0, 0o700);

    let elsewhere = Dir::new("planted-elsewhere");
    std::fs::create_dir(&elsewhere.0).unwrap();
    std::fs::rename(dir.0.join("token"), elsewhere.0.join("token")).unwrap();
    std::os::unix::fs::symlink(elsewhere.0.join("token"), dir.0.join("token")).unwrap();
    refused("token", "it is a link");
    std::fs::remove_file(dir.0.join("token")).unwrap();
    std::fs::hard_link(elsewhere.0.join("token"), dir.0.join("token")).unwrap();
    refused("token", "it has another name as well (a hard link)");
    std::fs::remove_dir_all(&dir.0).unwrap();
    std::os::unix::fs::symlink(&elsewhere.0, &dir.0).unwrap();
    refused("planted", "it is a link");
    std::fs::remove_file(&dir.0).unwrap();
}

#[test]
fn a_new_name_renews_the_server_certificate_and_a_new_ca_renews_all() {
    let dir = Dir::new("names");
    let now = time("2026-01-01T00:00:00Z");
    Pki::ensure(&dir.0, &[], now).unwrap();
    let [_, server, admin, _] = dir.all();
    let pki = Pki::ensure(&dir.0, &["GPU.example".to_owned(), "10.0.0.7".to_owned()], now).unwrap();
    assert!(
        pki.server.covers_name("gpu.example") && pki.server.covers_name("10.0.0.7") && pki.server.covers_name("0:0::1")
    );
    let [_, server_then, admin_then, _] = dir.all();
    assert!(server != server_then && admin == admin_then);
    std::fs::remove_file(dir.0.join("ca.pem")).unwrap();
    let pki = Pki::ensure(&dir.0, &[], now).unwrap();
    assert!(pki.server.is_issued_by(&pki.ca) && pki.admin.is_issued_by(&pki.ca) && dir.text("admin.pem") != admin);
}

#[test]
fn damaged_files_are_reported_and_not_changed() {
    let dir = Dir::new("damaged");
    let now = time("2026-01-01T00:00:00Z");
    for (file, text) in [("token", "short\n"), ("server.pem", "-----BEGIN NONSENSE-----"), ("ca.pem", "")] {
        Pki::ensure(&dir.0, &[], now).unwrap();
        let before = dir.text(file);
        std::fs::write(dir.0.join(file), text).unwrap();
        let error = Pki::ensure(&dir.0, &[], now).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains("remove it"), "{error}");
        assert_eq!(dir.text(file), text);
        std::fs::write(dir.0.join(file), before).unwrap();
    }
}

#[test]
fn an_invalid_host_name_is_refused() {
    let error = Pki::in_memory(&["bücher".to_owned()], time("2026-01-01T00:00:00Z")).map(|_| ()).unwrap_err();
    assert!(matches!(error, PkiError::Name(name) if name == "bücher"));
}

#[test]
fn the_admin_certificate_names_the_admin() {
    let pki = Pki::in_memory(&[], time("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(authentication::by_certificate(&[pki.admin.certificate()]), Some(Identity::admin()));
}
