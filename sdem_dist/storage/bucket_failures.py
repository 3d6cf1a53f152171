"""Refusals of a bucket, as errors for the person who reads them; they never contain a part of a credential."""

import errno
import re

from sdem_dist.errors import BucketError

_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"}
_EXPIRED = {"ExpiredToken", "TokenRefreshRequired", "RequestExpired", "RequestTimeTooSkewed"}
_UNKNOWN = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthorizationHeaderMalformed"}
_NO_CREDENTIALS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "metadata/identity")


class ChangedError(Exception):
    """A conditional PUT failed: the object is there already, or is not the one that was seen."""


def missing_credentials(bucket: str) -> BucketError:
    """Return the error of an environment without credentials."""
    return BucketError(
        f"{bucket}: there are no credentials: set those of the environment (for s3:// AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or run where the machine has a role; for gs:// GOOGLE_APPLICATION_CREDENTIALS; for "
        "abfs:// AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY)"
    )


def named(error: Exception, url: str) -> Exception:
    """Return what obstore raised about the object at `url` as an error of ours.

    Parameters
    ----------
    error : Exception
    url : str

    Returns
    -------
    BucketError
        It will not pass: no such bucket, denied, missing, unknown or expired credentials, the wrong region.
    ChangedError
        A condition of a PUT does not hold.
    FileNotFoundError
        There is no such object.
    OSError
        Anything else, after the retries: it may pass.
    """
    if not type(error).__module__.startswith("obstore") and not isinstance(error, FileNotFoundError):
        return error
    text, kind = str(error), type(error).__name__
    code = found[1] if (found := _CODE.search(text)) else ""
    scheme, _, rest = url.partition("://")
    bucket = f"{scheme}://{rest.partition('/')[0]}"
    if kind in ("AlreadyExistsError", "PreconditionError", "NotModifiedError") or code == "ConditionalRequestConflict":
        return ChangedError(url)
    if code in _NO_BUCKET:
        return BucketError(f"there is no bucket {bucket}: check the name, or make the bucket first")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "there is no such object", url)
    if code in _EXPIRED:
        return BucketError(f"{url}: the credentials have expired ({code}): renew those of the environment")
    if "Missing AccessKeyId" in text or "Missing SecretAccessKey" in text or any(p in text for p in _NO_CREDENTIALS):
        return missing_credentials(bucket)
    if "without LOCATION" in text or code == "PermanentRedirect":
        return BucketError(f"{bucket} is in another region: set AWS_REGION to the one of the bucket")
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or code in (*_UNKNOWN, "AccessDenied"):
        why = f" ({code})" if code else ""
        what = "the credentials are not known there, or wrong" if code in _UNKNOWN else "access is denied"
        return BucketError(f"{url}: {what}{why}: check the credentials of the environment and what they may do")
    return OSError(errno.EIO, f"the bucket fails, also when asked again: {plain(text)}", url)


def is_cut_short(error: Exception) -> bool:
    """Whether a connection ended in the middle of an answer, after which obstore does not ask again."""
    return type(error).__module__.startswith("obstore") and "body error" in str(error)


def plain(text: str) -> str:
    """Return the first words of a message of obstore: no body of an answer, no credentials of an address."""
    first = " ".join(re.split(r"<\?xml|<Error>|Debug source", text, maxsplit=1)[0].split())
    return re.sub(r"//[^/@\s]*@", "//", first)[:300]
