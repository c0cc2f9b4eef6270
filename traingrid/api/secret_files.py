"""Secret files: patterns of the files and folders in which programs store secrets, which no source archive has."""

SECRET_FILES = {
    "https://github.com/motdotla/dotenv": ".env .env.* *.env .envrc !.env.example !.env.template",
    "https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html": (
        ".aws/ credentials credentials.* !credentials.py"
    ),
    "https://learn.microsoft.com/cli/azure/azure-cli-configuration": ".azure/",
    "https://cloud.google.com/docs/authentication/application-default-credentials": (
        ".gcloud/ application_default_credentials.json"
    ),
    "https://developers.google.com/identity/protocols/oauth2/web-server": "client_secret*.json",
    "https://cloud.google.com/storage/docs/boto-gsutil": ".boto",
    "https://s3tools.org/s3cmd": ".s3cfg",
    "https://rclone.org/docs/": "rclone.conf",
    "https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/": ".kube/ kubeconfig",
    "https://docs.docker.com/reference/cli/docker/login/": ".docker/ .dockercfg .dockerconfigjson",
    "https://man.openbsd.org/ssh": ".ssh/ id_rsa* id_dsa* id_ecdsa* id_ed25519* *.ppk",
    "https://www.gnupg.org/documentation/manuals/gnupg/": ".gnupg/",
    "https://www.openssl.org/docs/": "*.pem *.key *.p12 *.pfx *.jks",
    "https://keepass.info/help/": "*.kdbx",
    "https://curl.se/docs/manpage.html#-n": ".netrc _netrc",
    "https://www.postgresql.org/docs/current/libpq-pgpass.html": ".pgpass",
    "https://dev.mysql.com/doc/refman/8.4/en/option-files.html": ".my.cnf .mylogin.cnf",
    "https://packaging.python.org/specifications/pypirc/": ".pypirc",
    "https://docs.npmjs.com/cli/configuring-npm/npmrc": ".npmrc",
    "https://git-scm.com/docs/git-credential-store": ".git-credentials",
    "https://httpd.apache.org/docs/current/programs/htpasswd.html": ".htpasswd",
    "https://developer.hashicorp.com/vault/docs/commands": ".vault-token",
    "https://www.kaggle.com/docs/api": "kaggle.json",
    "https://docs.databricks.com/aws/en/dev-tools/auth/config-profiles": ".databrickscfg",
    "https://docs.streamlit.io/develop/concepts/connections/secrets-management": (
        "secrets.toml secrets.json secrets.y*ml"
    ),
    "https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html": ".Renviron",
}
"""Patterns in the syntax of .gitignore, with the page of the program that uses these files."""
