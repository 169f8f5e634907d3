//! IP addresses of simulated nodes and pods. They are hashes of names, so the same cluster always has the same ones.

use std::net::Ipv4Addr;

/// The address of a node, in 10.128.0.0/9.
pub(crate) fn of_node(name: &str) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a80_0000 | (hash(name) & 0x007f_ffff))
}

/// The address of a pod, in 10.0.0.0/9. Two pods may share one: there is no network.
pub(crate) fn of_pod(uid: &str) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 | (hash(uid) & 0x007f_ffff))
}

/// FNV-1a, folded to 32 bits: short, and the same on every machine and in every version.
fn hash(text: &str) -> u32 {
    let full = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (full ^ (full >> 32)) as u32
}
