//! The administrator's kubeconfig, with certificates and key inline.

use k8s_openapi::ByteString;

use crate::edge::pki::Pki;

/// A kubeconfig for the server at `url` (`https://127.0.0.1:6443`), as YAML: CA, client certificate and key inline.
pub fn admin(pki: &Pki, url: &str) -> String {
    let (ca, certificate, key) = (pki.ca_certificate_pem(), pki.admin_certificate_pem(), pki.admin_key_pem());
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: phalanx
  cluster:
    server: {url}
    certificate-authority-data: {}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {}
    client-key-data: {}
contexts:
- name: phalanx
  context:
    cluster: phalanx
    user: kubernetes-admin
current-context: phalanx
",
        base64(&ca),
        base64(&certificate),
        base64(&key)
    )
}

/// Uses the type of Kubernetes for base64, which saves a dependency.
fn base64(text: &str) -> String {
    match serde_json::to_value(ByteString(text.as_bytes().to_vec())) {
        Ok(serde_json::Value::String(text)) => text,
        other => unreachable!("bytes are serialized as a string, not {other:?}"),
    }
}
