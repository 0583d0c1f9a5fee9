//! A certificate's key, and the request to certify it.

mod rsa;

use holdfast_model::Hostname;
use holdfast_store::Secret;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256};

use crate::{Error, KeyType};

/// Makes a key (PKCS #8 PEM) and a CSR (DER) for a name. An RSA key takes a good part of a second: not for a thread
/// that others wait on.
///
/// # Errors
/// When the system gives no randomness, or the name fits in no certificate.
pub fn key_and_csr(name: &Hostname, key_type: KeyType) -> Result<(Secret, Vec<u8>), Error> {
    let key = match key_type {
        KeyType::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
            .map_err(|_| Error::Key("no ECDSA key could be made"))?,
        KeyType::Rsa2048 => rsa::generate()?,
    };
    let mut request = CertificateParams::new([name.as_str().to_owned()])
        .map_err(|_| Error::Key("the name fits in no certificate request"))?;
    // CAs ignore the subject, and a long name does not fit in a common name.
    request.distinguished_name = DistinguishedName::new();
    let csr = request
        .serialize_request(&key)
        .map_err(|_| Error::Key("the certificate request could not be signed"))?;
    Ok((key.serialize_pem().into(), csr.der().to_vec()))
}
