#include "probes/control/registry/ecr.h"

#include <doctest/doctest.h>

namespace dlc {
namespace {

TEST_CASE("private ECR: the forms of its hosts") {
  struct Row {
    const char* host;
    const char* region;
  };
  const Row rows[] = {
      {"763104351884.dkr.ecr.us-east-1.amazonaws.com", "us-east-1"},
      {"727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"},
      {"446045086412.dkr.ecr-fips.us-gov-east-1.amazonaws.com", "us-gov-east-1"},
      {"763104351884.dkr-ecr.eu-central-1.on.aws", "eu-central-1"},
      {"763104351884.dkr-ecr-fips.us-west-2.on.aws", "us-west-2"},
      {"727897471807.dkr-ecr.cn-northwest-1.on.amazonwebservices.com.cn", "cn-northwest-1"},
      {"763104351884.dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"},
      {"763104351884.dkr.ecr.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"},
  };
  for (const Row& row : rows) {
    CHECK_MESSAGE(PrivateEcrRegion(row.host) == row.region, row.host);
  }
}

TEST_CASE("private ECR: a host that only looks like one gets no password") {
  for (const char* host :
       {"763104351884.dkr.ecr.us-east-1.amazonaws.com.evil.example",
        "evil.example/763104351884.dkr.ecr.us-east-1.amazonaws.com",
        "763104351884.dkr.ecr.us-east-1.evil.amazonaws.com",
        "x763104351884.dkr.ecr.us-east-1.amazonaws.com",
        "76310435188.dkr.ecr.us-east-1.amazonaws.com",
        "7631043518844.dkr.ecr.us-east-1.amazonaws.com",
        "763104351884.dkr.ecr.us-east-1.notamazonaws.com", "763104351884.dkr.ecr.-us.amazonaws.com",
        "763104351884.dkr.ecr..amazonaws.com", "763104351884.dkr.ecr.amazonaws.com",
        "763104351884.dkr.ecr.us-east-1.amazonaws.com:8443",
        "763104351884.dkr.s3.us-east-1.amazonaws.com", "public.ecr.aws", "127.0.0.1:5000", ""}) {
    CHECK_MESSAGE(PrivateEcrRegion(host).empty(), host);
  }
}

}  // namespace
}  // namespace dlc
