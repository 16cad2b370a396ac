# Sourced by scripts that unpack a package of another release of Debian without installing it.
# shellcheck shell=bash

# lists_of RELEASE FOLDER: has apt-get, from here on, read the list of packages of that release, which this machine's own
# do not have. Its files are in FOLDER, an absolute path. DEBIAN_MIRROR: where the packages come from.
lists_of() {
  local release=$1
  shift
  local mirror
  mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    sed -n '/^Debian http/{s/^Debian //p;q}')}
  mkdir -p "$1"/{state/lists,cache/archives}/partial
  : >"$1/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$1/sources"
  cat >"$1/conf" <<END
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::Etc::SourceList "$1/sources";
Dir::Etc::SourceParts "-";
Dir::State "$1/state";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
END
  export APT_CONFIG=$1/conf
  apt-get update -q
}
