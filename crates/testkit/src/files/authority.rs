//! A certificate authority for tests.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use tempfile::TempDir;

/// An authority.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// Paths of a certificate and its key.
#[derive(Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Pair {
    /// Arguments of the server for this certificate.
    pub fn arguments(&self) -> [&str; 4] {
        let (certificate, key) = (self.certificate.to_str(), self.key.to_str());
        ["--tls-certificate", certificate.unwrap(), "--tls-key", key.unwrap()]
    }
}

impl Authority {
    /// A new authority in a temporary folder.
    #[expect(clippy::new_without_default, reason = "it creates files")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("authority.pem"), certificate.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// The certificate that clients trust.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// A certificate for `names`, valid until the year `until`, in files that begin with `file`.
    pub fn sign_until(&self, file: &str, names: &[&str], until: i32) -> Pair {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair { certificate: self.path(file, "crt"), key: self.path(file, "key") };
        // Each file atomically, as renewal tools should.
        replace(&pair.key, key.serialize_pem());
        replace(&pair.certificate, certificate.pem());
        pair
    }

    /// A client certificate for this user.
    pub fn sign_client(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(serial(name));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair { certificate: self.path(name, "crt"), key: self.path(name, "key") };
        replace(&pair.key, key.serialize_pem());
        replace(&pair.certificate, certificate.pem());
        pair
    }

    /// A list, valid until the year `until`, that revokes the client certificates of these users.
    pub fn revoke(&self, names: &[&str], until: i32) -> PathBuf {
        let revoked = |name: &&str| RevokedCertParams {
            serial_number: serial(name),
            revocation_time: date_time_ymd(2001, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2001, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: names.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.path("revoked", "crl");
        replace(&path, params.signed_by(&self.issuer).unwrap().pem().unwrap());
        path
    }

    /// A certificate for `names`, valid for a long time.
    pub fn sign(&self, file: &str, names: &[&str]) -> Pair {
        self.sign_until(file, names, 2090)
    }

    fn path(&self, file: &str, extension: &str) -> PathBuf {
        self.folder.path().join(file).with_extension(extension)
    }
}

/// The serial number of a user's certificate.
fn serial(name: &str) -> SerialNumber {
    SerialNumber::from_slice(name.as_bytes())
}

/// Atomically replaces a file.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) {
    let new_file = path.with_extension("new");
    fs::write(&new_file, content).unwrap();
    fs::rename(new_file, path).unwrap();
}
