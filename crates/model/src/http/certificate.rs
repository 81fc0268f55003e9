//! Explains in words why a certificate is not trusted.

use std::error::Error as StdError;
use std::io;

use rustls::CertificateError;

/// Why the certificate of a server is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateProblem {
    /// No authority that this machine trusts has signed it.
    UnknownIssuer,
    /// It is for other names than the one that was asked for.
    OtherNames {
        /// The name that was asked for.
        expected: String,
        /// The names that it is for.
        presented: Vec<String>,
    },
    /// Anything else.
    Other(String),
}

impl std::fmt::Display for CertificateProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownIssuer => f.write_str("its certificate is self-signed, or of an unknown authority"),
            Self::OtherNames { expected, presented } if presented.is_empty() => {
                write!(f, "its certificate names no host (subjectAltName), so it is not valid for {expected}")
            }
            Self::OtherNames { expected, presented } => {
                write!(f, "its certificate is for {}, not for {expected}", presented.join(", "))
            }
            Self::Other(why) => write!(f, "its certificate is not valid: {why}"),
        }
    }
}

/// Finds the problem with a certificate among the causes of an error.
#[must_use]
pub fn certificate_problem(error: &(dyn StdError + 'static)) -> Option<CertificateProblem> {
    causes(error).find_map(|cause| match cause.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(problem) => Some(of_certificate(problem)),
        rustls::Error::General(why) => Some(CertificateProblem::Other(why.clone())),
        _ => None,
    })
}

/// Iterates over the causes of an error, starting with the error itself. An I/O error hides the error that it
/// wraps from `source`, so it is unwrapped here.
pub(super) fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error: &'a (dyn StdError + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

fn of_certificate(problem: &CertificateError) -> CertificateProblem {
    match problem {
        CertificateError::UnknownIssuer => CertificateProblem::UnknownIssuer,
        CertificateError::NotValidForNameContext { expected, presented } => CertificateProblem::OtherNames {
            expected: expected.to_str().into_owned(),
            presented: presented.iter().map(|name| plain_name(name)).collect(),
        },
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            CertificateProblem::Other("it has expired".into())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateProblem::Other("it is not valid yet; check the clock of this machine".into())
        }
        // As `openssl req -x509` makes them.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => CertificateProblem::UnknownIssuer,
        other => CertificateProblem::Other(other.to_string()),
    }
}

/// Returns the name in `DnsName("localhost")` or `IpAddress(127.0.0.1)`.
fn plain_name(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;

    use super::*;

    fn shown(problem: CertificateError) -> String {
        let wrapped = io::Error::other(rustls::Error::InvalidCertificate(problem));
        certificate_problem(&wrapped).unwrap().to_string()
    }

    #[test]
    fn problems_are_described_without_names_of_the_library() {
        let expected = ServerName::try_from("other.example").unwrap();
        let names = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: expected.clone(),
            presented: presented.iter().map(|&name| name.to_owned()).collect(),
        };
        assert_eq!(
            shown(names(&["DnsName(\"localhost\")", "IpAddress(127.0.0.1)"])),
            "its certificate is for localhost, 127.0.0.1, not for other.example"
        );
        assert!(shown(names(&[])).contains("names no host"));
        assert!(shown(CertificateError::UnknownIssuer).contains("self-signed"));
        assert!(shown(CertificateError::Expired).contains("has expired"));
        assert_eq!(certificate_problem(&io::Error::other("unrelated")), None);
    }
}
