//! Folders: the repository's, the cache, and scratch folders.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The folder of the workspace, independent of the current folder.
pub fn repository_root() -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok(root.canonicalize()?)
}

/// The folder of tools and programs that are built once. Scripts use it, too.
pub fn cache_folder() -> anyhow::Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache")
        }
    };
    Ok(cache.join("phalanx"))
}

/// A folder of this run alone, removed at its end.
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Creates the folder below the system's folder for temporary files.
    pub fn new(purpose: &str) -> anyhow::Result<ScratchDir> {
        let folder = std::env::temp_dir().join(format!("phalanx-{purpose}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(ScratchDir(folder))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps the folder for inspection.
    pub fn keep(self) -> PathBuf {
        let path = self.0.clone();
        std::mem::forget(self);
        path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}
